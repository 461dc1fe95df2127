"""Certificates: a proof as SMT-LIB, which another solver can check.

A certificate is one file: the inductive invariant, then its verification conditions, each a script of its own that
ends in `(check-sat)` and `(reset)`, and is unsatisfiable: the initial states have the invariant, and every step
preserves it and has the properties about steps. Each condition has only those claims before the step that its proof
needs. Comments, and an index in JSON, name the claims that a condition establishes, and those that it uses: a reader of
the specification can list the conditions that must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import z3

from leasehold.checker.prove.decide.assumptions import assumptions
from leasehold.checker.prove.decide.induction import START, Induction, Setting
from leasehold.checker.prove.decide.obligation import SIDE_CONDITION, ProofObligation
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.transitions import SymbolicStep
from leasehold.checker.prove.encode.values import conjunction
from leasehold.spec.language.model import System


class Unproved(Exception):
    """A condition of a proof could not be proved again; the words say which."""


# Kinds of steps that are no transitions, by their names.
KINDS = {
    r".* ignores .*": "ignored message", r".*/.*: .* again": "message sent again", r".* loses a message": "loss",
    r".* has .* again": "duplicate",
    r".* halts": "halt", "the network is parted": "partition",
    r".* crashes": "crash", r".* crashes again": "crash in recovery", r".* recovers": "recovery", "time passes": "time",
}  # fmt: skip


@dataclass(frozen=True)
class VerificationCondition:
    """One condition of a certificate.

    Attributes:
        name: of the step, as a path shows it; "the initial states" for the first condition.
        kind: `initial states`, `transition`, or which fault or other step it is.
        establishes: claims about states that hold after the step (or in the initial states).
        establishes_of_step: claims about steps that hold of it.
        unchanged: claims about states of which the step changes nothing, so that they hold after it, too.
        side_conditions: what holds of the step so that the relation lacks no step.
        uses: claims about the state before that the proof needs.
        composite: the step is several others, which establish claims about states; it is for claims about steps.
        script: SMT-LIB, which is unsatisfiable.
    """

    name: str
    kind: str
    establishes: tuple[str, ...]
    establishes_of_step: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    side_conditions: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    composite: bool = False
    script: str = ""

    def text(self, number: int) -> str:
        """The condition in the file: comments that say what it establishes, and its script."""
        lists = {
            "establishes, of the state": self.establishes, "establishes, of the step": self.establishes_of_step,
            "unchanged by the step": self.unchanged, "side conditions": self.side_conditions,
            "uses, of the state before": self.uses,
        }  # fmt: skip
        said = [f"{title}: {', '.join(names)}" for title, names in lists.items() if names]
        return _words("", f"Condition {number}, {self.kind}: {self.name}", *said) + self.script


class Certificate:
    """A proof as verification conditions.

    Args:
        system: the system of the proof.
        setting: for which instances and faults.
        found: the result of induction.
    """

    def __init__(self, system: System, setting: Setting, found: Induction) -> None:
        self.system, self.found = system, found
        self.encoding = setting.encoding(system)
        self.claims = [c for c in claims_of(self.encoding) if c.name in found.proved]
        self.invariant = [c for c in self.claims if not c.about_steps]
        self.words = assumptions(self.encoding, setting)

    @property
    def header(self) -> str:
        """The comments before the conditions: what it is for, and the inductive invariant."""
        system = self.system
        sizes = f"{len(self.claims)} claims, {self.found.steps + 1} conditions"
        lines = [
            f"{system.name}, specification {system.digest}: {sizes}.",
            f"Faults: {self.encoding.scope.words}.", *self.words.lines, "Every (check-sat) below is answered unsat.",
            "", "The inductive invariant, of an arbitrary state s:",
        ]  # fmt: skip
        parts = [_words(*lines)]
        for claim in self.invariant:
            parts += [_words(f"{claim.name} ({claim.kind})"), _commented(self.encoding.now(claim).sexpr())]
        return "".join(parts)

    def conditions(self) -> Iterator[VerificationCondition]:
        """All conditions, the one of the initial states first.

        Raises:
            Unproved: the solver does not prove a condition again, with all claims known at once.
        """
        encoding = self.encoding
        first = encoding.first(encoding.before)
        goals = conjunction(*map(encoding.now, self.invariant))
        facts = list(encoding.sorts.cardinals.facts([first, goals]))
        script = _script([*encoding.given, first, z3.Not(goals), *facts])
        yield VerificationCondition(START, "initial states", tuple(c.name for c in self.invariant), script=script)
        for step in encoding.relation.steps(encoding.before):
            yield self._condition(step)

    def _condition(self, step: SymbolicStep) -> VerificationCondition:
        question = ProofObligation(
            self.encoding, step, self.invariant, self.claims, side_conditions=self.found.side_conditions
        )
        undischarged = question.undischarged()
        if undischarged:
            raise Unproved(f"the solver does not prove again, for {step.name}: {undischarged[0].claim}")
        asked, state_claims = {*question.changed}, [] if step.composite else self.invariant
        return VerificationCondition(
            step.name, _kind(step),
            establishes=tuple(c.name for c in state_claims if c.name in asked),
            establishes_of_step=tuple(c.name for c in self.claims if c.about_steps),
            unchanged=tuple(c.name for c in state_claims if c.name not in asked),
            side_conditions=tuple(
                n.removeprefix(SIDE_CONDITION) for n in question.changed if n.startswith(SIDE_CONDITION)
            ),
            uses=tuple(sorted(question.used)), composite=step.composite, script=_script(question.needed()),
        )  # fmt: skip

    def index(self, conditions: Sequence[VerificationCondition]) -> dict[str, Any]:
        """The conditions as JSON has them, in the order of the file, without their scripts."""
        return {
            "system": self.system.name,
            "spec_digest": self.system.digest,
            "faults": self.encoding.scope.words,
            "assumptions": asdict(self.words),
            "claims": [
                {"name": c.name, "kind": c.kind, "about": "steps" if c.about_steps else "states"} for c in self.claims
            ],
            "conditions": [
                {"number": number} | {name: value for name, value in asdict(condition).items() if name != "script"}
                for number, condition in enumerate(conditions, 1)
            ],
        }


def _kind(step: SymbolicStep) -> str:
    if step.transition is not None:
        return "transition"
    return next((kind for pattern, kind in KINDS.items() if re.fullmatch(pattern, step.name)), "other")


def _script(assertions: Sequence[z3.BoolRef]) -> str:
    solver = z3.Solver()
    solver.add(*assertions)
    script = solver.to_smt2().replace("(set-info :status unknown)", "(set-info :status unsat)")
    lines = [line for line in script.splitlines() if not line.startswith(";")]
    return "\n".join(["(set-logic ALL)", *lines, "(reset)", ""])


def _words(*lines: str) -> str:
    return "".join(f"; {line}\n" if line else ";\n" for line in lines)


def _commented(text: str) -> str:
    return "".join(f";   {line}\n" for line in text.splitlines())
