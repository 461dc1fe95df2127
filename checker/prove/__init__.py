"""The prover: claims about every reachable state and step, for all values and without bounds, by z3.

encode/ renders a system's states, steps and properties as terms; decide/ asks the solver which claims hold; discover/
finds lemmas; prover.py tries what is left after induction. The layers import one another in this order only.
"""

from leasehold.checker.prove.decide.certificate import Certificate, Unproved
from leasehold.checker.prove.decide.induction import ANY, LIMIT_SECONDS, Setting
from leasehold.checker.prove.decide.proof import ClaimVerdict, Proof
from leasehold.checker.prove.decide.proof_store import StoredProof, store, stored
from leasehold.checker.prove.decide.set_aside import limit_memory, stopped_by_signals
from leasehold.checker.prove.encode.encoding import NoSuchNumbers, known_sizes
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.formulas import Unencodable
from leasehold.checker.prove.encode.lemma import lemmas_yaml
from leasehold.checker.prove.prover import prove

__all__ = [
    "ANY",
    "LIMIT_SECONDS",
    "Certificate",
    "ClaimVerdict",
    "FaultScope",
    "NoSuchNumbers",
    "Proof",
    "Setting",
    "StoredProof",
    "Unencodable",
    "Unproved",
    "known_sizes",
    "lemmas_yaml",
    "limit_memory",
    "prove",
    "stopped_by_signals",
    "store",
    "stored",
]
