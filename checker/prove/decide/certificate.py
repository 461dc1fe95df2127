"""Certificates: a proof as SMT-LIB, which another solver can check.

A certificate is one file: the inductive invariant, then its verification conditions, each a script of its own that
ends in `(check-sat)` and `(reset)`, and is unsatisfiable: the initial states have the invariant, and every step
preserves it and has the properties about steps. Each condition has only those claims before the step that its proof
needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import z3

from leasehold.checker.prove.decide.induction import START, Induction, Setting
from leasehold.checker.prove.decide.obligation import ProofObligation
from leasehold.checker.prove.encode.encoding import Encoding
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.values import conjunction
from leasehold.spec.language.model import System


class Unproved(Exception):
    """A condition of a proof could not be proved again; the words say which."""


def certificate(system: System, setting: Setting, found: Induction) -> Iterator[str]:
    """The parts of the file.

    Args:
        system: the system of the proof.
        setting: for which instances and faults.
        found: the result of induction.

    Raises:
        Unproved: the solver does not prove a condition again, with all claims known at once.
    """
    encoding = setting.encoding(system)
    claims = [c for c in claims_of(encoding) if c.name in found.proved]
    invariant = [c for c in claims if not c.about_steps]
    yield _words(
        f"{system.name}, specification {system.digest}: {len(claims)} claims, {found.steps + 1} conditions.",
        f"Faults: {encoding.scope.words}.",
        "Every (check-sat) below is answered unsat.",
        "", "The inductive invariant, of an arbitrary state s:",
    )  # fmt: skip
    for claim in invariant:
        yield _words(f"{claim.name} ({claim.kind})")
        yield _commented(encoding.now(claim).sexpr())
    first = encoding.first(encoding.before)
    goals = conjunction(*map(encoding.now, invariant))
    facts = list(encoding.sorts.cardinals.facts([first, goals]))
    yield _condition(START, encoding, [*encoding.given, first, z3.Not(goals), *facts])
    for step in encoding.relation.steps(encoding.before):
        question = ProofObligation(encoding, step, invariant, claims, side_conditions=found.side_conditions)
        undischarged = question.undischarged()
        if undischarged:
            raise Unproved(f"the solver does not prove again, for {step.name}: {undischarged[0].claim}")
        yield _condition(step.name, encoding, question.needed())


def _condition(name: str, encoding: Encoding, assertions: list[z3.BoolRef]) -> str:
    solver = z3.Solver()
    solver.add(*assertions)
    script = solver.to_smt2().replace("(set-info :status unknown)", "(set-info :status unsat)")
    lines = [line for line in script.splitlines() if not line.startswith(";")]
    return "\n".join([*_words(name).splitlines(), "(set-logic ALL)", *lines, "(reset)", ""])


def _words(*lines: str) -> str:
    return "".join(f"; {line}\n" if line else ";\n" for line in lines)


def _commented(text: str) -> str:
    return "".join(f";   {line}\n" for line in text.splitlines())
