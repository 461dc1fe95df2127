"""A system for the solver: its constants, its first states, its steps, and what is to be proved of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import z3

from leasehold.checker.prove.claims import Claim, Kind
from leasehold.checker.prove.deviant import DeviantSteps
from leasehold.checker.prove.proposals import proposed
from leasehold.checker.prove.steps import Scope, Step, Steps
from leasehold.checker.prove.terms import Frame, Took, term
from leasehold.checker.prove.values import Sorts, Term, Unsupported, conjunction
from leasehold.checker.prove.world import NUMBER, Key, State, World
from leasehold.faults.mutants import Deviation
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.lint import expressions
from leasehold.spec.language.model import Property, Role, System, Transition


class Encoding:
    """One system, encoded.

    Args:
        sizes: numbers of instances by type that are known; those that a constant counts are any from 1 on else.
        scope: the faults.
        limit_seconds: for one question to the solver.
        deviations: mistakes that machines make in what every machine does (deviant.py).

    Attributes:
        given: what is known of constants.
        before: an arbitrary state.
    """

    def __init__(
        self, system: System, *, sizes: dict[str, int] | None = None, scope: Scope | None = None,
        limit_seconds: float = 10.0, deviations: Sequence[Deviation] = (),
    ) -> None:  # fmt: skip
        self.system = system
        self.deviations = tuple(deviations)
        self.limit = limit_seconds
        self.scope = scope if scope is not None else scope_of(system)
        self.given: list[Term] = []
        self.sorts = self._sorts()
        self.constants = self._constants(sizes or {})
        self.world = self._world()
        self.steps = self._steps()
        self.before = self.world.unknown("s")
        self._said: dict[str, tuple[Term, set[Key]]] = {}  # what a claim says of `before`, and what it reads

    def _sorts(self) -> Sorts:
        return Sorts({})

    def _world(self) -> World:
        return World(self.system, self.sorts)

    def _steps(self) -> Steps:
        if self.deviations:
            return DeviantSteps(self.world, self.constants, self.scope, self.deviations)
        return Steps(self.world, self.constants, self.scope)

    def _constants(self, sizes: dict[str, int]) -> dict[str, Any]:
        """Constants as terms, and numbers of instances: unknown ones where a constant is one."""
        found: dict[str, Any] = {}
        for constant in self.system.constants.values():
            value, valid = self.sorts.fresh(constant.name, constant.type)
            if isinstance(constant.type, t.Int):
                valid = self.sorts.within(t.Int(constant.type.low), value)  # the greatest is for exploring only
            found[constant.name] = value
            self.given.append(valid)
            if constant.name in self.system.bounding:  # types have its value in them
                self.given.append(value == self.sorts.literal(constant.type, constant.value))
        for type_ in self.system.counted():
            if type_.name in sizes:
                self.sorts.sizes[type_.name] = sizes[type_.name]
                if type_.counted_by:
                    self.given.append(found[type_.counted_by] == sizes[type_.name])
            elif type_.counted_by and type_.counted_by not in self.system.bounding:
                self.sorts.sizes[type_.name] = found[type_.counted_by]
                self.given.append(found[type_.counted_by] >= 1)
        return found

    # Claims

    def now(self, claim: Claim) -> Term:
        """What a claim about states says of the arbitrary state before a step."""
        if claim.name not in self._said:
            state, read = self.before.recorded()
            self._said[claim.name] = claim.words(state, None, Took()), read
        return self._said[claim.name][0]

    def then(self, claim: Claim, step: Step) -> Term:
        """What a claim says after a step, or of the step."""
        if claim.about_steps:
            return claim.words(step.after, self.before, step.took)
        said = self.now(claim)
        functions = self.before.functions
        if all(step.after.functions[key] is functions[key] for key in self._said[claim.name][1]):
            return said
        return claim.words(step.after, None, step.took)

    def claims(self) -> list[Claim]:
        """The system's claims that induction is for, its lemmas, and what is taken for granted of types and numbers."""
        found = [
            self._claim(p, "step" if p.kind == "step" else "always")
            for p in self.system.properties.values()
            if p.kind in ("always", "step") and not _about_liars(p)
        ]
        found += [self._claim(p, "lemma") for p in self.system.lemmas.values()]
        return [*found, *self._ranges(), *self._numbers(), *proposed(self)]

    def _claim(self, p: Property, kind: Kind) -> Claim:
        def words(s: State, before: State | None, took: Took) -> Term:
            frame = Frame(self.sorts, s, self.constants, before=before, took=took)
            claim = term(p.claim, frame)
            return claim if p.when is None else z3.Implies(term(p.when, frame), claim)

        messages = any(x.mentions(e, is_of_messages) for e in (p.when, p.claim))
        try:
            words(self.before, self.before if kind == "step" else None, Took())
        except Unsupported as error:
            return Claim(p.name, kind, words, str(error), messages)
        return Claim(p.name, kind, words, "", messages)

    def _ranges(self) -> Iterator[Claim]:
        """Data stay within their types."""
        told = self._told()
        for key, slot in self.world.slots.items():
            if key[0] not in ("data", "field", "now") or not _bounded(slot.type):
                continue

            def words(s: State, before: State | None, took: Took, slot: Any = slot) -> Term:
                def inside(*at: Term) -> Term:
                    holds = self._within(slot.type, slot.read(s.functions, at))
                    if slot.key[0] != "field":
                        return holds
                    # Of a message that is not on its way nothing is asked.
                    channel = self.system.channels[slot.key[1]]
                    *ends, number = at
                    there = s.message(channel, tuple(ends), number).is_kind(slot.key[2])
                    return z3.Implies(conjunction(s.pending(channel, tuple(ends), number), there), holds)

                return self.sorts.for_all(slot.arguments, inside)

            name = f"range of {'.'.join(key[1:]) or key[0]}"
            messages = key[0] == "field" or (key[0] == "data" and key[1:] in told)
            yield Claim(name, "range", words, speaks_of_messages=messages)

    def _told(self) -> set[Key]:
        """Data, by role and name, whose values come from messages, also by way of other data."""
        found: set[Key] = set()
        updates = [
            (transition, (role.name, update.name), update.value)
            for role in self.system.roles.values()
            for transition in role.transitions()
            for update in transition.updates
        ]

        def is_told(transition: Transition, node: x.Expression) -> bool:
            if isinstance(node, x.Argument):
                return transition.event in self.system.messages
            return isinstance(node, x.Data) and (node.role, node.name) in found

        while True:
            more = {key for tr, key, value in updates if x.mentions(value, partial(is_told, tr))}
            if more <= found:
                return found
            found |= more

    def _within(self, type_: t.Type, value: Any) -> Term:
        match type_:
            case t.Map(key=key, of=cell):
                return self.sorts.every(key, lambda k: self._within(cell, value.at(k)))
            case t.Option(of=of):
                assert of is not None
                return z3.Implies(value.some, self._within(of, value.value))
        return self.sorts.within(type_, value)

    def _numbers(self) -> Iterator[Claim]:
        """Numbers of messages lie as they are given."""
        for channel in self.system.channels.values():
            if channel.kind == "set":
                continue

            def words(s: State, before: State | None, took: Took, channel: Any = channel) -> Term:
                of = self.world.ends(channel)

                def ordered(*ends: Term) -> Term:
                    sent, received = (s.read((k, channel.name), *ends) for k in ("sent", "received"))
                    return conjunction(received >= 0, received <= sent)

                def given(*at: Term) -> Term:
                    number = at[-1]
                    low_enough = number <= s.read(("sent", channel.name), *at[:-1])
                    return z3.Implies(s.read(("present", channel.name), *at), conjunction(number >= 0, low_enough))

                return conjunction(self.sorts.for_all(of, ordered), self.sorts.for_all((*of, NUMBER), given))

            yield Claim(f"numbers in {channel.name}", "network", words, speaks_of_messages=True)

    # First states

    def first(self, s: State) -> Term:
        """That a state is a first one."""
        parts = []
        for role in self.system.roles.values():
            parts.append(self.sorts.for_all(self.world.index(role), partial(self._begins, s, role)))
        for channel in self.system.channels.values():
            parts.append(s.every_message(channel.name, lambda m: z3.BoolVal(False)))
            if channel.kind != "set":
                parts.append(s.unused(channel))
        parts.append(s.now == 0)
        if self.system.initially is not None:
            parts.append(term(self.system.initially, Frame(self.sorts, s, self.constants)))
        return conjunction(*parts)

    def _begins(self, s: State, role: Role, *instance: Term) -> Term:
        """That a machine is as it begins."""
        me = instance[0] if instance else z3.IntVal(0)
        parts = [s.is_in(role.name, me, role.initial.name), s.running(role.name, me)]
        for datum in role.data.values():
            value = s.data(role.name, me, datum.name)
            if datum.any_initial:
                parts.append(self._within(datum.type, value))
            else:
                parts.append(self.sorts.equal(value, self.sorts.literal(datum.type, datum.initial)))
        return conjunction(*parts)

    def is_scalar(self, type_: t.Type) -> bool:
        """Whether a value of a type is one term."""
        return not isinstance(type_, t.Set | t.Map | t.Option)

    def solver(self, seconds: float | None = None) -> z3.Solver:
        """A solver that gives up after some time; left out: after the limit for one question."""
        made = z3.Solver()
        made.set("smt.pull_nested_quantifiers", True)  # or it finds no terms to put for those inside
        made.set("timeout", round((self.limit if seconds is None else seconds) * 1000))
        return made


def is_of_messages(node: x.Expression) -> bool:
    """Whether a part of an expression is about messages on their way."""
    return isinstance(node, x.Pending | x.Heard | x.MessageField)


def steps_read_messages(system: System) -> bool:
    """Whether what a step does depends on messages on their way, beside the one that it takes."""
    return _steps_mention(system, is_of_messages)


def steps_ask_who_is_reachable(system: System) -> bool:
    """Whether what a step does depends on partitions of the network."""
    return _steps_mention(system, lambda node: isinstance(node, x.Reachable))


def _steps_mention(system: System, what: Callable[[x.Expression], bool]) -> bool:
    return any(x.mentions(e, what) for e in expressions(replace(system, properties={})))


def _about_liars(p: Property) -> bool:
    """Whether a property speaks of who may do anything; here everybody keeps to the specification."""
    return any(x.mentions(e, lambda node: isinstance(node, x.Byzantine)) for e in (p.when, p.claim))


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
