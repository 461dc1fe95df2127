"""A system for the solver: its constants, its first states, its steps, and what is to be proved of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import z3

from leasehold.checker.prove.claims import Claim, Kind
from leasehold.checker.prove.proposals import proposed
from leasehold.checker.prove.steps import Scope, Steps
from leasehold.checker.prove.terms import Frame, Took, term
from leasehold.checker.prove.values import Sorts, Term, Unsupported, conjunction
from leasehold.checker.prove.world import State, World
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Property, System


class Encoding:
    """One system, encoded.

    Args:
        sizes: numbers of instances by type that are known; those that a constant counts are any from 1 on else.
        scope: the faults.
        limit_seconds: for one question to the solver.

    Attributes:
        given: what is known of constants.
        before: an arbitrary state.
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
                    there = conjunction(
                        s.pending(channel, ends, number), s.message(channel, ends, number).is_kind(slot.key[2])
                    )
                    holds = z3.Implies(there, holds)
                valid = conjunction(
                    *(self.sorts.within(a, v) for a, v in zip(slot.arguments, at, strict=True) if a is not t.INT)
                )
                return z3.ForAll(at, z3.Implies(valid, holds)) if at else holds

            yield Claim(f"range of {'.'.join(key[1:]) or key[0]}", "range", words)

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
                ends = [self.sorts.constant("end", e) for e in of]
                number = self.sorts.constant("number", t.INT)
                sent, received = (s.read((k, channel.name), *ends) for k in ("sent", "received"))
                present = s.read(("present", channel.name), *ends, number)
                order = conjunction(received >= 0, received <= sent)
                valid = conjunction(*map(self.sorts.within, of, ends))
                first = z3.Implies(valid, order)
                return conjunction(
                    z3.ForAll(ends, first) if ends else first,
                    z3.ForAll(
                        [*ends, number],
                        z3.Implies(conjunction(valid, present), conjunction(number >= 0, number <= sent)),
                    ),
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
                none = conjunction(
                    s.read(("sent", channel.name), *ends) == 0, s.read(("received", channel.name), *ends) == 0,
                    z3.Not(s.read(("present", channel.name), *ends, number)),
                )  # fmt: skip
                parts.append(z3.ForAll([*ends, number], none))
        parts.append(s.now == 0)
        if self.system.initially is not None:
            parts.append(term(self.system.initially, Frame(self.sorts, s, self.constants)))
        return conjunction(*parts)

    def _any(self, type_: t.Instance | None) -> tuple[Term, Callable[[Term], Term]]:
        if type_ is None:
            return z3.IntVal(0), lambda body: body
        bound = self.sorts.constant("i", type_)
        return bound, lambda body: z3.ForAll([bound], z3.Implies(self.sorts.within(type_, bound), body))

    def is_scalar(self, type_: t.Type) -> bool:
        """Whether a value of a type is one term."""
        return not isinstance(type_, t.Set | t.Map | t.Option)

    def solver(self, seconds: float | None = None) -> z3.Solver:
        """A solver that gives up after some time; left out: after the limit for one question."""
        made = z3.Solver()
        made.set("timeout", round((self.limit if seconds is None else seconds) * 1000))
        return made


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
