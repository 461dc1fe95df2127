"""A system in VMT-LIB: SMT-LIB terms, annotated as a transition system, for nuXmv, ic3ia and other model checkers.

Theory of operation. The steps are relations between two rows of variables (ground.py), which are printed here. No step
leads out of the bounds.

    x, x.next          a variable of a state, and of the next; variables without a next one are chosen by a step
    .step_n            a transition of known machines; `.trans`: one of them is taken
    .same_n            a variable does not change
    .property_NAME     a property `always`, in every state

Enumerations are numbers, named in comments. Message numbers grow without bound, so an export has more states than the
explorer, which keeps ranks; an execution of one is an execution of the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import z3

from leasehold.checker.export.ground import GroundEncoding, GroundStep, explored
from leasehold.checker.export.shared import (
    Exported,
    ExportError,
    ExportOptions,
    LeftOut,
    heading,
    low_high,
    ranges,
    without_refinement,
    wrapped,
)
from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction, constants, disjunction
from leasehold.checker.prove.encode.terms import Bindings, term
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Relation
from leasehold.spec.language.model import OF_FAIR_RUNS, System

NOT_SAID = {
    "step": "an invariant of VMT-LIB is about one state, not about two",
    "sometimes": "an invariant of VMT-LIB is about all states; search for the witness as a violation of its negation",
    **dict.fromkeys(OF_FAIR_RUNS, "VMT-LIB has no fairness"),
    "always_possible": "that some run leads to it is a claim about branching time",
}


def render(relation: Relation, options: ExportOptions) -> Exported:
    """The transition system, for the constants as they are set."""
    for channel in relation.system.channels.values():
        if channel.lose or channel.duplicate or channel.reorder:
            raise ExportError(
                f"channel {channel.name} has faults", "set their budgets to 0, or export to Promela", channel.place
            )
    try:
        return _VmtModule(relation.system).exported()
    except Unencodable as error:
        raise ExportError(str(error), "export to Promela or TLA+") from error


class _VmtModule:
    def __init__(self, system: System) -> None:
        self.system = system
        self.encoding = GroundEncoding(system)
        self.bindings = Bindings(self.encoding.sorts, self.encoding.state, self.encoding.constants)
        self.known: list[tuple[Term, Term]] = []  # variables that never change, and their values
        self.next: list[tuple[Term, Term]] = []
        for place, variable in zip(self.encoding.places, self.encoding.variables, strict=True):
            if place.key[0] == "up" or (place.key[0] == "now" and system.clock is None):
                self.known.append((variable, z3.BoolVal(True) if place.key[0] == "up" else z3.IntVal(0)))
            else:
                self.next.append((variable, z3.Const(f"{variable.decl().name()}.next", variable.sort())))
        self.same = [z3.Bool(f".same_{n}") for n in range(len(self.next))]
        self.left_out = without_refinement(system)

    def exported(self) -> Exported:
        bounds = self._bounds()
        initial = self._closed(conjunction(self.encoding.first(self.encoding.state), bounds, *self._no_values()))
        steps = [self._step(rule) for rule in self.encoding.rules()]
        taken = disjunction(*(z3.Bool(f".step_{n}") for n in range(len(steps))))
        trans = conjunction(taken, z3.substitute(bounds, *self.next))
        claims = list(self._properties())
        bound = {v.get_id() for v in (*self.same, *(v for pair in self.next for v in pair))}
        chosen = {v.get_id(): v for v in constants(*(step for _, step in steps)) if v.get_id() not in bound}
        lines = [*self._header(), ""]
        lines += [v.decl().sexpr() for pair in self.next for v in pair]
        lines += [v.decl().sexpr() for v in chosen.values()]
        lines += [f"(define-fun .state_{n} () {v.sort()} (! {v.sexpr()} :next {then.sexpr()}))"
                  for n, (v, then) in enumerate(self.next)]  # fmt: skip
        lines += [_define(str(same), v == then) for same, (v, then) in zip(self.same, self.next, strict=True)]
        lines.append(_define(".init", initial, ":init true"))
        for n, (about, step) in enumerate(steps):
            lines += [*wrapped(about, "; ", ";   "), _define(f".step_{n}", step)]
        lines.append(_define(".trans", trans, ":trans true"))
        for n, (name, doc, claim) in enumerate(claims):
            lines += [
                *wrapped(f"{name}. {doc}", "; ", "; "),
                _define(f".property_{name}", claim, f":invar-property {n}"),
            ]
        return Exported("\n".join(lines) + "\n", left_out=tuple(self.left_out))

    def _header(self) -> Iterator[str]:
        system = self.system
        for words in heading(system):
            yield from wrapped(words, "; ", "; ")
        enumerations = [role.control for role in system.roles.values()]
        for of in (*enumerations, *(e for e in system.types.values() if isinstance(e, t.Enum))):
            named = ", ".join(f"{n} {member}" for n, member in enumerate(of.members))
            yield from wrapped(f"{of.name}: {named}", "; ", ";   ")
        for left in self.left_out:
            yield from wrapped(f"Not here: {left.name}: {left.why}", "; ", ";   ")

    def _closed(self, e: Term) -> Term:
        """A term without the variables that never change."""
        return z3.simplify(z3.substitute(e, *self.known))

    def _no_values(self) -> Iterator[Term]:
        """At first the value of an option that has none is 0, so that there is one such state."""
        values = {
            place.key + place.at: v for place, v in zip(self.encoding.places, self.encoding.variables, strict=True)
        }
        for place, some in zip(self.encoding.places, self.encoding.variables, strict=True):
            if place.key[-1] == "?":
                value = values[place.key[:-1] + place.at]
                yield z3.Or(some, z3.Not(value) if z3.is_bool(value) else value == 0)

    def _bounds(self) -> Term:
        """The state constraint, and the explored ranges of data."""
        system, encoding = self.system, self.encoding
        found = [] if system.constraint is None else [term(system.constraint, self.bindings)]
        for role, datum, ends in ranges(system):
            low, high = (term(e, self.bindings) for e in ends)
            for i in range(role.count):
                value = encoding.state.data(role.name, z3.IntVal(i), datum.name)
                found.append(explored(encoding.sorts, datum.type, value, low, high))
        return self._closed(conjunction(*found))

    def _step(self, rule: GroundStep) -> tuple[str, Term]:
        """A transition of known machines: its name, and the relation."""
        then = dict(zip((v.get_id() for v in self.encoding.variables), rule.then, strict=True))
        values = [self.same[n] if then[v.get_id()].eq(v) else after == self._closed(then[v.get_id()])
                  for n, (v, after) in enumerate(self.next)]  # fmt: skip
        machines = ", ".join(f"{constant.decl().name().split('!')[0]} {value}" for constant, value in rule.pairs)
        return f"{rule.step.name} ({machines})".removesuffix(" ()"), conjunction(self._closed(rule.given), *values)

    def _properties(self) -> Iterator[tuple[str, str, Term]]:
        typed = [(role, d) for role in self.system.holders.values() for d in role.data.values() if low_high(d.type)]
        inside = [self.encoding.sorts.within(d.type, self.encoding.state.data(role.name, z3.IntVal(i), d.name))
                  for role, d in typed for i in range(role.count)]  # fmt: skip
        if inside:
            yield "types_hold", "No int leaves its range.", self._closed(conjunction(*inside))
        for p in self.system.properties.values():
            if p.kind in NOT_SAID:
                self.left_out.append(LeftOut(p.name, NOT_SAID[p.kind]))
                continue
            try:
                claim = term(p.claim, self.bindings)
                when = z3.BoolVal(True) if p.when is None else term(p.when, self.bindings)
            except Unencodable as error:
                self.left_out.append(LeftOut(p.name, str(error)))
            else:
                yield p.name, p.doc, self._closed(z3.Implies(when, claim))


def _define(name: str, e: Term, annotation: str = "") -> str:
    words = e.sexpr()
    return f"(define-fun {name} () Bool {f'(! {words} {annotation})' if annotation else words})"
