"""Induction over the whole system: which claims every step preserves, all together.

Theory of operation. A claim about states is *inductive* beside others when it holds in the first states, and after every
step from a state in which all of them hold. The largest part of a set of claims that is so is found by taking out what
fails until nothing does (the Houdini algorithm: Flanagan and Leino, FME 2001): a claim that some step breaks, from a
state in which all that are left hold, is taken out, and with it what was concluded with its help. What is left holds in
every reachable state. Claims about steps are then asked of every step from a state in which the former hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from leasehold.checker.prove.claims import Claim, Kind
from leasehold.checker.prove.proposals import proposed
from leasehold.checker.prove.steps import Scope, Step, Steps
from leasehold.checker.prove.terms import Frame, Took, term
from leasehold.checker.prove.values import Sorts, Term, Unsupported
from leasehold.checker.prove.world import State, World
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Property, System

@dataclass(frozen=True)
class Broken:
    """A step that takes a claim away, from a state in which all that is known holds. It may not be reachable.

    Attributes:
        step: its name; empty: a first state does not have it.
        model: the solver's.
    """

    claim: str
    step: str
    model: Any = None
    before: State | None = None
    after: State | None = None


@dataclass
class Induction:
    """What induction has shown.

    Attributes:
        proved: names of claims that hold of all reachable states and steps.
        broken: for each other claim why it is not, as it was found first.
        undecided: claims about which the solver could not say, or that have no encoding, with the reason.
        seconds: by claim kind all together.
    """

    proved: set[str] = field(default_factory=set)
    broken: dict[str, Broken] = field(default_factory=dict)
    undecided: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    queries: int = 0


class Prover:
    """One system, encoded.

    Args:
        sizes: numbers of instances by type that are known; the others are any from 1 on.
        scope: the faults.
        limit_seconds: for one question to the solver.
    """

    def __init__(
        self, system: System, *, sizes: dict[str, int] | None = None, scope: Scope | None = None,
        limit_seconds: float = 10.0,
    ) -> None:  # fmt: skip
        self.system = system
        self.limit = limit_seconds
        self.scope = scope if scope is not None else scope_of(system)
        self.given: list[Term] = []
        self.sorts = Sorts({})
        self.constants = self._constants(sizes or {})
        self.world = World(system, self.sorts)
        self.steps = Steps(self.world, self.constants, self.scope)
        self.before = self.world.unknown("s")

    def _constants(self, sizes: dict[str, int]) -> dict[str, Any]:
        """Constants as terms, and numbers of instances: unknown ones where a constant is one."""
        found: dict[str, Any] = {}
        for constant in self.system.constants.values():
            value, valid = self.sorts.fresh(constant.name, constant.type)
            if isinstance(constant.type, t.Int):
                valid = self.sorts.within(t.Int(constant.type.low), value)  # the greatest is for exploring only
            found[constant.name] = value
            self.given.append(valid)
        for type_ in self._counted():
            if type_.name in sizes:
                self.sorts.sizes[type_.name] = sizes[type_.name]
                if type_.counted_by:
                    self.given.append(found[type_.counted_by] == sizes[type_.name])
            elif type_.counted_by:
                self.sorts.sizes[type_.name] = found[type_.counted_by]
                self.given.append(found[type_.counted_by] >= 1)
        return found

    def _counted(self) -> list[t.Instance]:
        roles = [role.instance for role in self.system.roles.values() if role.indexed]
        return [*roles, *(type_ for type_ in self.system.types.values() if isinstance(type_, t.Instance))]

    # Claims

    def claims(self, lemmas: Sequence[Property] = ()) -> list[Claim]:
        """The system's claims that induction is for, its lemmas, and what is taken for granted of types and numbers."""
        found = [
            self._claim(p, "step" if p.kind == "step" else "always")
            for p in self.system.properties.values()
            if p.kind in ("always", "step")
        ]
        found += [self._claim(p, "lemma") for p in lemmas]
        return [*found, *self._ranges(), *self._numbers(), *proposed(self)]

    def _claim(self, p: Property, kind: Kind) -> Claim:
        def words(s: State, before: State | None, took: Took) -> Term:
            frame = Frame(self.sorts, s, self.constants, before=before, took=took)
            claim = term(p.claim, frame)
            return claim if p.when is None else z3.Implies(term(p.when, frame), claim)

        claim = Claim(p.name, kind, words)
        try:
            words(self.before, self.before if kind == "step" else None, Took())
        except Unsupported as error:
            return Claim(p.name, kind, words, str(error))
        return claim

    def _ranges(self) -> Iterator[Claim]:
        """Data stay within their types."""
        for key, slot in self.world.slots.items():
            if key[0] not in ("data", "field", "now") or not _bounded(slot.type):
                continue

            def words(s: State, before: State | None, took: Took, slot: Any = slot) -> Term:
                at = [self.sorts.constant("at", a) for a in slot.arguments]
                with self.sorts.opened(*at):
                    value = slot.read(s.functions, tuple(at))
                    holds = self._within(slot.type, value)
                # Of a message that is not on its way nothing is asked.
                if slot.key[0] == "field":
                    channel = self.system.channels[slot.key[1]]
                    number = at[len(self.world.ends(channel))]
                    ends = tuple(at[: len(self.world.ends(channel))])
                    there = z3.And(s.pending(channel, ends, number), s.message(channel, ends, number).is_kind(slot.key[2]))
                    holds = z3.Implies(there, holds)
                valid = z3.And(*(self.sorts.within(a, v) for a, v in zip(slot.arguments, at, strict=True) if a is not t.INT))
                return z3.ForAll(at, z3.Implies(valid, holds)) if at else holds

            yield Claim(f"range of {'.'.join(key[1:]) or key[0]}", "range", words)

    def _within(self, type_: t.Type, value: Any) -> Term:
        match type_:
            case t.Map(key=key, of=of):
                return self.sorts.every(key, lambda k: self._within(of, value.at(k)))
            case t.Option(of=of):
                return z3.Implies(value.some, self._within(of, value.value)) if of is not None else z3.BoolVal(True)
        return self.sorts.within(type_, value)

    def _numbers(self) -> Iterator[Claim]:
        """Numbers of messages lie as they are given."""
        for channel in self.system.channels.values():
            if channel.kind == "set":
                continue

            def words(s: State, before: State | None, took: Took, channel: Any = channel) -> Term:
                of = self.world.ends(channel)
                ends = [self.sorts.constant("end", e) for e in of]
                number = self.sorts.constant("number", t.INT)
                sent, received = (s.read((k, channel.name), *ends) for k in ("sent", "received"))
                present = s.read(("present", channel.name), *ends, number)
                order = z3.And(0 <= received, received <= sent)
                valid = z3.And(*map(self.sorts.within, of, ends))
                first = z3.Implies(valid, order)
                return z3.And(
                    z3.ForAll(ends, first) if ends else first,
                    z3.ForAll([*ends, number], z3.Implies(z3.And(valid, present), z3.And(0 <= number, number <= sent))),
                )

            yield Claim(f"numbers in {channel.name}", "network", words)

    # First states

    def first(self, s: State) -> Term:
        """That a state is a first one."""
        parts = []
        for role in self.system.roles.values():
            at, bound = self._any(role.instance if role.indexed else None)
            parts.append(bound(s.is_in(role.name, at, role.initial.name)))
            parts.append(bound(s.running(role.name, at)))
            for datum in role.data.values():
                if not datum.any_initial:
                    value = s.data(role.name, at, datum.name)
                    parts.append(bound(self.sorts.equal(value, self.sorts.literal(datum.type, datum.initial))))
                else:
                    parts.append(bound(self._within(datum.type, s.data(role.name, at, datum.name))))
        for channel in self.system.channels.values():
            parts.append(s.every_message(channel.name, lambda m: z3.BoolVal(False)))
            if channel.kind != "set":
                of = self.world.ends(channel)
                ends = [self.sorts.constant("end", e) for e in of]
                number = self.sorts.constant("number", t.INT)
                none = z3.And(
                    s.read(("sent", channel.name), *ends) == 0, s.read(("received", channel.name), *ends) == 0,
                    z3.Not(s.read(("present", channel.name), *ends, number)),
                )  # fmt: skip
                parts.append(z3.ForAll([*ends, number], none))
        parts.append(s.now == 0)
        if self.system.initially is not None:
            parts.append(term(self.system.initially, Frame(self.sorts, s, self.constants)))
        return z3.And(*parts)

    def _any(self, type_: t.Instance | None) -> tuple[Term, Callable[[Term], Term]]:
        if type_ is None:
            return z3.IntVal(0), lambda body: body
        bound = self.sorts.constant("i", type_)
        return bound, lambda body: z3.ForAll([bound], z3.Implies(self.sorts.within(type_, bound), body))

    # Induction

    def prove(self, claims: Sequence[Claim], watch: Callable[[str, int, int], None] | None = None) -> Induction:
        """Finds which claims hold, all together."""
        began, found = time.perf_counter(), Induction()
        for claim in claims:
            if claim.why_not:
                found.undecided[claim.name] = claim.why_not
        invariants = {c.name: c for c in claims if not c.about_steps and not c.why_not}
        self._start(invariants, found)
        steps = list(self.steps.every(self.before))
        waiting = list(range(len(steps)))
        questions: dict[int, _Question] = {}
        while waiting:
            n = waiting.pop(0)
            if n not in questions:
                questions[n] = _Question(self, steps[n], list(invariants.values()))
            lost = questions[n].ask(set(invariants), found)
            if watch is not None:
                watch("induction", len(steps) - len(waiting), len(steps))
            if lost:
                for name in lost:
                    del invariants[name]
                waiting = [n, *waiting, *(m for m in range(len(steps)) if m not in waiting and m != n)]
        owed = [(words, step.name) for step in steps for words, _ in step.owed]
        found.proved |= set(invariants)
        about_steps = [c for c in claims if c.about_steps and not c.why_not]
        for n, step in enumerate(steps):
            if watch is not None:
                watch("steps", n, len(steps))
            lost = _Question(self, step, list(invariants.values()), about_steps).ask_steps(found)
            about_steps = [c for c in about_steps if c.name not in lost]
        found.proved |= {c.name for c in about_steps}
        found.seconds = time.perf_counter() - began
        del owed
        return found

    def _start(self, invariants: dict[str, Claim], found: Induction) -> None:
        solver = self.solver()
        first = self.first(self.before)
        solver.add(*self.given, first)
        for name, claim in list(invariants.items()):
            goal = claim.words(self.before, None, Took())
            solver.push()
            solver.add(z3.Not(goal), *self.sorts.cardinals.facts(z3.And(first, goal)))
            answer = solver.check()
            found.queries += 1
            if answer != z3.unsat:
                if answer == z3.sat:
                    found.broken[name] = Broken(name, "", solver.model(), None, self.before)
                else:
                    found.undecided[name] = f"the solver gives up at the first states: {solver.reason_unknown()}"
                del invariants[name]
            solver.pop()

    def solver(self) -> z3.Solver:
        made = z3.Solver()
        made.set("timeout", round(self.limit * 1000))
        return made


class _Question:
    """Whether a step preserves claims."""

    def __init__(self, prover: Prover, step: Step, invariants: list[Claim], about_steps: Sequence[Claim] = ()) -> None:
        self.prover, self.step = prover, step
        self.before = {c.name: c.words(prover.before, None, Took()) for c in invariants}
        self.after: dict[str, Term] = {}
        self.owed = z3.And(*(claim for _, claim in step.owed)) if step.owed else None
        claims = about_steps or invariants
        for c in claims:
            self.after[c.name] = c.words(step.after, prover.before if c.about_steps else None, step.took)
        self.solver = prover.solver()
        self.solver.add(*prover.given, *step.given)
        self.flags = {name: z3.Bool(f"given {name}") for name in self.before}
        self.wanted = {name: z3.Bool(f"wrong {name}") for name in self.after}
        if about_steps:
            self.solver.add(*self.before.values())
        else:
            self.solver.add(*(z3.Implies(self.flags[n], p) for n, p in self.before.items()))
        self.changed = [n for n, p in self.after.items() if n not in self.before or not p.eq(self.before[n])]
        self.solver.add(*(z3.Implies(self.wanted[n], z3.Not(self.after[n])) for n in self.changed))
        everything = z3.And(*prover.given, *step.given, *self.before.values(), *self.after.values())
        # Sizes of sets are hard for a solver, and most claims hold whatever they are.
        self.facts = list(prover.sorts.cardinals.facts(everything))
        self._sized: z3.Solver | None = None

    def ask(self, live: set[str], found: Induction) -> set[str]:
        """The claims, of those that are left, which the step takes away; asked until nothing more is lost."""
        lost: set[str] = set()
        while True:
            left = live - lost
            gone = self._ask([self.flags[n] for n in left], [n for n in self.changed if n in left], found)
            if not gone:
                return lost
            lost |= gone

    def ask_steps(self, found: Induction) -> set[str]:
        """The claims about steps that this one contradicts."""
        return self._ask([], self.changed, found)

    def _ask(self, given: list[Term], asked: list[str], found: Induction) -> set[str]:
        """Which of some claims are lost, where all that is given holds."""
        open_ = self._narrowed(self.solver, given, asked, found)
        if open_ and self.facts:
            if self._sized is None:
                self._sized = self.prover.solver()
                self._sized.add(*self.solver.assertions(), *self.facts)
            open_ = self._narrowed(self._sized, given, sorted(open_), found)
        for name, (answer, model) in open_.items():
            if answer == z3.sat:
                broken = Broken(name, self.step.name, model, self.prover.before, self.step.after)
                found.broken.setdefault(name, broken)
            else:
                found.undecided[name] = f"the solver gives up at {self.step.name}"
        return set(open_)

    def _narrowed(
        self, solver: z3.Solver, given: list[Term], asked: list[str], found: Induction
    ) -> dict[str, tuple[Any, Any]]:  # fmt: skip
        """The claims that do not follow, with the solver's answer and model: all together, then one by one."""
        wrong: dict[str, tuple[Any, Any]] = {}
        while asked:
            answer, model = self._check(solver, given, asked, found)
            if answer == z3.unsat:
                return wrong
            gone = [n for n in asked if z3.is_true(model.eval(self.wanted[n]))] if answer == z3.sat else []
            if not gone:
                for name in asked:
                    answer, model = self._check(solver, given, [name], found)
                    if answer != z3.unsat:
                        wrong[name] = answer, model
                return wrong
            wrong.update((name, (answer, model)) for name in gone)
            asked = [n for n in asked if n not in gone]
        return wrong

    def _check(self, solver: z3.Solver, given: list[Term], asked: list[str], found: Induction) -> tuple[Any, Any]:
        solver.push()
        solver.add(z3.Or(*(self.wanted[n] for n in asked)))
        answer = solver.check(*given)
        found.queries += 1
        model = solver.model() if answer == z3.sat else None
        solver.pop()
        return answer, model


def scope_of(system: System) -> Scope:
    """All faults, where numbers of messages bear them; else those that the channels declare."""
    numbered = all(channel.kind == "mailbox" for channel in system.channels.values())
    return Scope(crash=numbered, network=numbered)


def _bounded(type_: t.Type) -> bool:
    match type_:
        case t.Int(low=low, high=high):
            return low is not None or high is not None
        case t.Time() | t.Instance():
            return True
        case t.Map(of=of) | t.Option(of=of):
            return of is not None and _bounded(of)
    return False


__all__ = ["Broken", "Claim", "Induction", "Prover", "x"]
