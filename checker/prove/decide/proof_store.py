"""The proof store: proofs in the user's cache, so that a system is not proved twice.

A stored proof has a name that is made of everything that it depends on: the system as it was loaded (with its
constants, as some of them bound types), its lemmas, z3's version, and the prover's own source. When any of these
changes, the proof is not found. Only whole proofs are stored: for any number of instances, with all faults that
channels bear.

The cache is optional: a file that cannot be read is not there, and a proof that cannot be written is not stored.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import z3

from leasehold.checker.explore import PropertyResult
from leasehold.checker.host.cache import cache_folder, sources_of, write_whole
from leasehold.checker.prove.decide.assumptions import Assumptions
from leasehold.checker.prove.decide.guards import GuardFinding
from leasehold.checker.prove.decide.induction import Setting
from leasehold.checker.prove.decide.proof import PROVABLE, ClaimVerdict, Proof
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.lemma import CandidateLemma
from leasehold.checker.prove.encode.transitions import TransitionRelation
from leasehold.faults.model import Budget
from leasehold.spec import language
from leasehold.spec.language.diagnostics import Place
from leasehold.spec.language.model import Faults, System
from leasehold.spec.language.typing.syntax import Syntax

FORM = 3  # of the files; another number is another proof
MOST_BYTES = 1_000_000  # a longer file is none of ours


def _sources() -> list[list[str]]:
    """The files of the prover and of the language by name, each with what is in it; empty where they are not there."""
    return sources_of([Path(__file__).parents[1], *map(Path, language.__path__)])


# As they were when this process began: a file that is edited while it proves must not vouch for the proof.
_SOURCES = _sources()


class StoredProof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole proof.

    Attributes:
        proved: names of properties, and by which method each was proved.
        any_number: roles and counted types that have any number of instances.
        faults: for which it holds, in words.
        what: all that it holds for, in words.
        made: the day, as 2026-01-31.
        assumptions: all that it depends on.
        vacuous: for each property whose antecedent is proved to be never true: why.
        whole: whether it has proved every property about states and steps, and every lemma, and knows of all of them
            whether they are vacuous; then it takes the place of a new proof.
        lemmas: those of lemmas.yaml that hold, and by which method.
        found_lemmas: those that the prover has found.
        guards: what is wrong with guards and updates.
        helpers: auxiliary invariants that hold.
    """

    proved: dict[str, str]
    any_number: list[str]
    faults: str
    what: str
    made: str
    assumptions: Assumptions | None = None
    vacuous: dict[str, str] = msgspec.field(default_factory=dict)
    whole: bool = False
    lemmas: dict[str, str] = msgspec.field(default_factory=dict)
    found_lemmas: list[CandidateLemma] = msgspec.field(default_factory=list)
    guards: list[GuardFinding] = msgspec.field(default_factory=list)
    helpers: int = 0
    steps: int = 0
    questions: int = 0

    @property
    def words(self) -> str:
        """The scope for which it holds, in words."""
        return f"for {self.what}"

    def proof(self, system: System) -> Proof:
        """The proof of a system, as it was made then; without the induction that a certificate needs."""
        properties = [p for p in system.properties.values() if p.name in self.proved]
        verdicts = [
            ClaimVerdict(
                p.name,
                "step" if p.kind == "step" else "always",
                "proved",
                self.proved[p.name],
                vacuous=self.vacuous.get(p.name, ""),
            )
            for p in properties
        ]
        lemmas = [ClaimVerdict(name, "lemma", "proved", self.lemmas[name]) for name in system.lemmas]
        return Proof(
            system,
            [*verdicts, *lemmas],
            others=[n for n in system.properties if n not in self.proved],
            helpers=self.helpers,
            any_number=self.any_number,
            steps=self.steps,
            questions=self.questions,
            guards=self.guards,
            lemmas=self.found_lemmas,
            assumptions=self.assumptions,
            kept=self.made,
            kept_for=self.what,
            scope=FaultScope.of(system),
        )

    def proves(self, result: PropertyResult) -> bool:
        return result.name in self.proved and result.kind in PROVABLE

    def strongest(self, result: PropertyResult) -> str:
        """The strongest verdict on a property that was explored too. What contradicts it is stronger than a proof."""
        return "proved" if self.proves(result) and result.verdict != "violated" else result.verdict

    def contradicted(self, results: Iterable[PropertyResult], budget: Budget | None = None) -> list[str]:
        """Returns what is proved, and yet violated under faults of which the proof speaks: one of the two is wrong."""
        scopes = (FaultScope(), FaultScope(amnesia=True))
        if budget is not None and not any(s.words == self.faults and s.speaks_of(budget) for s in scopes):
            return []
        return [p.name for p in results if p.verdict == "violated" and self.proves(p)]


def stored(system: System) -> StoredProof | None:
    """The proof of this system that was kept, if there is one."""
    try:
        file = _file(system)
        if file is None or not file.is_file() or file.stat().st_size > MOST_BYTES:
            return None
        record = msgspec.json.decode(file.read_bytes(), type=StoredProof)
    except (OSError, ValueError, RecursionError):
        return None
    known = {p.name for p in system.properties.values() if p.kind in PROVABLE}
    lemmas = record.lemmas.keys() >= system.lemmas.keys() or not record.whole
    return record if record.proved and record.proved.keys() <= known and lemmas else None


def store(proof: Proof, setting: Setting) -> StoredProof | None:
    """Keeps what a whole proof has proved, beside what an earlier one did; None where that is nothing."""
    proved = {v.name: v.method for v in proof.properties if v.verdict == "proved"}
    asked = setting.sizes or setting.values or setting.scope is not None
    if asked or setting.relation is not TransitionRelation or not proved:
        return None
    record = StoredProof(
        proved=proved,
        any_number=proof.any_number,
        faults=proof.scope.words,
        what=proof.for_what,
        made=datetime.now(UTC).date().isoformat(),
        assumptions=proof.assumptions,
        vacuous={v.name: v.vacuous for v in proof.properties if v.vacuous and not v.vacuity_explored},
        whole=_is_whole(proof),
        lemmas={v.name: v.method for v in proof.lemma_verdicts if v.verdict == "proved"},
        found_lemmas=proof.lemmas,
        guards=proof.guards,
        helpers=proof.helpers,
        steps=proof.steps,
        questions=proof.questions,
    )
    earlier = stored(proof.system)
    if earlier is not None and earlier.what == record.what:
        best = earlier if earlier.whole else record
        record = msgspec.structs.replace(
            best, proved={**earlier.proved, **record.proved}, vacuous={**earlier.vacuous, **record.vacuous}
        )
    with contextlib.suppress(OSError, ValueError, RecursionError):
        file = _file(proof.system)
        if file is not None and _sources() == _SOURCES:  # processes that proved may have begun later
            write_whole(file, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    return record


def _is_whole(proof: Proof) -> bool:
    """Returns whether nothing is left to be proved, or to be known about vacuity."""
    left_open = proof.vacuity_open or proof.guards_open
    decided = proof.holds and not left_open and not any(v.vacuity_explored for v in proof.properties)
    asked = {v.name for v in proof.verdicts} | set(proof.others)
    return decided and asked >= proof.system.properties.keys() | proof.system.lemmas.keys()


def _file(system: System) -> Path | None:
    if not _SOURCES:  # then no later process could tell that the prover is the same
        return None
    # Expectations, migrations and budgets of faults are about other questions than the prover's.
    nodes = Faults(nodes=system.faults.nodes)
    asked = replace(system, doc="", expectations=(), warnings=(), migrations=(), faults=nodes)
    parts = [FORM, system.digest, _plain(asked), FaultScope.of(system).words, z3.get_full_version(), _SOURCES]
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=True)
    return cache_folder() / "proofs" / f"{sha256(text.encode()).hexdigest()}.json"


def _plain(value: Any) -> Any:
    """A part of a system as JSON, in an order that is the same in every process: all but places and `doc`s.

    Trees of definitions are left out too, as their source is there.
    The digest does not say as much: it knows neither lemmas nor values that were set.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = [(f.name, getattr(value, f.name)) for f in fields(value)]
        kept = [[name, _plain(v)] for name, v in parts if name != "doc" and not isinstance(v, Place | Syntax)]
        return [type(value).__name__, *kept]
    if isinstance(value, Mapping):
        return ["mapping", *([_plain(k), _plain(v)] for k, v in value.items())]
    if isinstance(value, tuple | list):
        return ["list", *map(_plain, value)]
    if isinstance(value, frozenset | set):
        return ["set", *sorted(map(_plain, value), key=json.dumps)]
    if value is None or isinstance(value, bool | int | str):
        return value
    if value is ...:
        return ["nothing is said"]
    raise ValueError(f"{type(value).__name__} has no form that lasts")
