"""Certificates: a proof as SMT-LIB, which another solver can check.

A certificate is one file: the inductive invariant, then its verification conditions, each a script of its own that
ends in `(check-sat)` and `(reset)`, and is unsatisfiable: the initial states have the invariant, and every step
preserves it and has the properties about steps. Each condition has only those claims before the step that its proof
needs. Comments, and an index in JSON, name the claims that a condition establishes, and those that it uses: a reader of
the specification can list the conditions that must be there.

A script names its parts, so that a reader can compare them. Variables of the state before the step begin with `s.`,
those of the state after it with `t.`, those of the state after the whole step, where that is more, with `w.`; `t.` and
`w.` are defined over `s.`. A claim is a definition: `before C` over `s.`, `after C` the same over `t.`, `of the step C`
over both. Each assertion is one of these names; the last one is that not all claims hold that the script shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import z3

from leasehold.checker.prove.decide.assumptions import assumptions
from leasehold.checker.prove.decide.induction import START, Induction, Setting
from leasehold.checker.prove.decide.obligation import SIDE_CONDITION, ProofObligation
from leasehold.checker.prove.encode.encoding import Encoding
from leasehold.checker.prove.encode.formulas import Term
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.transitions import SymbolicStep
from leasehold.spec.language.model import System


class Unproved(Exception):
    """A condition of a proof could not be proved again; the words say which."""


VALUE = "value."  # a function of every value that z3 prints; what a specification names has no dot in its name

# Kinds of steps that are no transitions, by their names.
KINDS = {
    r".* ignores .*": "ignored message",
    r".*/.*: .* again": "message sent again",
    r".* loses a message": "loss",
    r".* has .* again": "duplicate",
    "the network is parted": "partition",
    r".* crashes": "crash",
    r".* crashes again": "crash in recovery",
    r".* recovers": "recovery",
    "time passes": "time",
}


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
            "establishes, of the state": self.establishes,
            "establishes, of the step": self.establishes_of_step,
            "unchanged by the step": self.unchanged,
            "side conditions": self.side_conditions,
            "uses, of the state before": self.uses,
        }
        lines = [f"{title}: {', '.join(names)}" for title, names in lists.items() if names]
        return _words("", f"Condition {number}, {self.kind}: {self.name}", *lines) + self.script


class Certificate:
    """A proof as verification conditions.

    Args:
        system: the system of the proof.
        setting: for which instances and faults.
        found: the result of induction.
    """

    def __init__(self, system: System, setting: Setting, induction: Induction) -> None:
        self.system, self.found = system, induction
        self.encoding = setting.encoding(system)
        self.claims = [c for c in claims_of(self.encoding) if c.name in induction.proved]
        self.invariant = [c for c in self.claims if not c.about_steps]
        self.words = assumptions(system, setting)

    @property
    def header(self) -> str:
        """The comments before the conditions: what it is for, and the inductive invariant."""
        system = self.system
        sizes = f"{len(self.claims)} claims, {self.found.steps + 1} conditions"
        lines = [
            f"{system.name}, specification {system.digest}: {sizes}.",
            f"Faults: {self.encoding.scope.words}.",
            *self.words.lines,
            "Every (check-sat) below is answered unsat.",
            "",
            "The inductive invariant, of an arbitrary state s:",
        ]
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
        goals = {c.name: encoding.now(c) for c in self.invariant}
        script = _Script(encoding)
        script.add("constants", encoding.given)
        script.add("guard", [first])
        cardinals, asked = encoding.sorts.cardinals, [*goals.values()]
        script.add("axiom", cardinals.facts([first, *asked], subtracted=cardinals.subtracted(asked)))
        script.asks({f"before {name}": goal for name, goal in goals.items()})
        yield VerificationCondition(START, "initial states", tuple(goals), script=script.text())
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
            step.name,
            _kind(step),
            establishes=tuple(c.name for c in state_claims if c.name in asked),
            establishes_of_step=tuple(c.name for c in self.claims if c.about_steps),
            unchanged=tuple(c.name for c in state_claims if c.name not in asked),
            side_conditions=tuple(
                n.removeprefix(SIDE_CONDITION) for n in question.changed if n.startswith(SIDE_CONDITION)
            ),
            uses=tuple(sorted(question.used)),
            composite=step.composite,
            script=self._script(question, step),
        )

    def _script(self, question: ProofObligation, step: SymbolicStep) -> str:
        """A condition as SMT-LIB: the claims over the states before and after, and these over the state before."""
        encoding, states = self.encoding, {"t": step.after}
        if step.whole is not step.after and any(c.about_steps for c in self.claims):
            states["w"] = step.whole
        named = {letter: encoding.schema.unknown(letter) for letter in states}
        script = _Script(encoding)
        for letter, state in states.items():
            script.define_state(letter, state)
        goals: dict[str, Term] = {}
        for claim in self.claims:
            if claim.about_steps:
                meaning = claim.meaning(named.get("w", named["t"]), encoding.before, step.took)
                goals[f"of the step {claim.name}"] = meaning
            elif claim.name in question.changed:
                goals[f"after {claim.name}"] = claim.meaning(named["t"], None, step.took)
        goals |= {n: question.after[n] for n in question.changed if n.startswith(SIDE_CONDITION)}
        before = {name: question.before[name] for name in sorted(question.used)}
        script.add("constants", encoding.given)
        script.add("guard", step.given)
        script.add_named({f"before {name}": term for name, term in before.items()})
        # A sum that a claim compares stands in the definition of a variable after the step: any size may be meant.
        compared = (*step.given, *goals.values()) if question.subtracts else ()
        script.add("axiom", self._axioms(step, [*before.values(), *goals.values(), *script.defined], compared))
        script.asks(goals)
        return script.text()

    def _axioms(self, step: SymbolicStep, mentioned: Sequence[Term], compared: Sequence[Term]) -> Iterator[Term]:
        """Yields what is known of the sizes of sets that the script speaks of, and compares."""
        role = self.encoding.system.roles.get(step.took.role)
        points = [(role.instance, step.took.instance)] if role is not None and role.indexed else []
        given = [*self.encoding.given, *step.given]
        cardinals = self.encoding.sorts.cardinals
        yield from cardinals.facts([*given, *mentioned], points, subtracted=cardinals.named(compared))

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


class _Script:
    """A script whose parts have names.

    z3 prints the parts, each as a function's argument, and the declarations that they need.
    """

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._parts: list[tuple[str, Term]] = []  # `define-fun` up to its value, and the value
        self._asserted: list[str] = []
        self._goals: list[str] = []

    @property
    def defined(self) -> list[Term]:
        return [value for _, value in self._parts]

    def define_state(self, letter: str, state: SymbolicState) -> None:
        """The variables of a state after a step, as functions of those before."""
        sorts = self._encoding.sorts
        for variable in self._encoding.schema.variables.values():
            for key, arguments, result in variable.parts():
                places = [z3.Const(f"at.{n}", sorts.sort(of)) for n, of in enumerate(arguments)]
                with sorts.opened(places):
                    value = state.functions[key](*places)
                parameters = " ".join(f"({place} {place.sort().sexpr()})" for place in places)
                name = quoted(f"{letter}.{'.'.join(key)}")
                self._parts.append((f"{name} ({parameters}) {sorts.sort(result).sexpr()}", value))

    def add(self, kind: str, terms: Iterable[Term]) -> None:
        """Assertions of one kind, by number."""
        self.add_named({f"{kind} {number}": term for number, term in enumerate(terms, 1)})

    def add_named(self, terms: Mapping[str, Term]) -> None:
        """Assertions by name."""
        self._asserted += terms
        self._parts += ((f"{quoted(name)} () Bool", term) for name, term in terms.items())

    def asks(self, goals: Mapping[str, Term]) -> None:
        """Claims of which the script shows that all hold."""
        self._goals += goals
        self._parts += ((f"{quoted(name)} () Bool", term) for name, term in goals.items())

    def text(self) -> str:
        solver = z3.Solver()
        for _, value in self._parts:
            solver.add(z3.Function(VALUE, value.sort(), z3.BoolSort())(value))
        declarations, *values = solver.to_smt2().split("\n(assert\n ")
        values[-1], _, _ = values[-1].rpartition("\n(check-sat)")
        lines = [line for line in declarations.splitlines() if _is_of_the_state_before(line)]
        lines += [
            f"(define-fun {head} {_argument(printed.removesuffix(')'))})"
            for (head, value), printed in zip(self._parts, values, strict=True)
        ]
        lines += [f"(assert {quoted(name)})" for name in self._asserted]
        lines += [f"(assert (not (and true {' '.join(map(quoted, self._goals))})))", "(check-sat)", "(reset)", ""]
        return "\n".join(["(set-logic ALL)", *lines])


def quoted(name: str) -> str:
    """A name as SMT-LIB has it, which z3 quotes where it must."""
    return name if re.fullmatch(r"[A-Za-z_.!?0-9-]+", name) else f"|{name}|"


def _is_of_the_state_before(line: str) -> bool:
    """Returns whether a line declares something: the states after are defined, and places are parameters."""
    return not re.match(r"(;|\(set-info|\(declare-fun \|?(t|w|at|value)\.)", line)


def _argument(printed: str) -> str:
    """The text of a value, where z3 prints an application to it."""
    application = f"({VALUE} "
    start, depth, end = printed.rindex(application), 0, 0
    for end in range(start, len(printed)):
        depth += {"(": 1, ")": -1}.get(printed[end], 0)
        if not depth:
            break
    return printed[:start] + printed[start + len(application) : end] + printed[end + 1 :]


def _words(*lines: str) -> str:
    return "".join(f"; {line}\n" if line else ";\n" for line in lines)


def _commented(text: str) -> str:
    return "".join(f";   {line}\n" for line in text.splitlines())
