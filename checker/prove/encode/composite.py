"""Composite steps: what the explorer does in one step and the transition relation in several, for claims about steps.

Theory of operation. A step of the explorer may be several steps of the relation, one after the other: actors that stop
together stop one by one, a mailbox that forgets a message loses it. Every state that the explorer reaches is then
reached as well, and no more is needed for claims about states. A claim about steps compares the states at both ends, so
it is asked of the whole step (`SymbolicStep.together`). What no claim about steps of the system looks at is left out:
for these claims, the whole step and one of its parts are then the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import z3

from leasehold.checker.prove.encode.effects import PartialStep, TaskEffects, reads_others
from leasehold.checker.prove.encode.formulas import Term, conjunction, disjunction
from leasehold.checker.prove.encode.state import NUMBER, Key, StateSchema, SymbolicState, same_places
from leasehold.checker.prove.encode.terms import term
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Piece
from leasehold.spec.language.model import Channel, Role, System

_MACHINE = re.compile(r"(?P<role>\w+)(\[(?P<instance>\d+)\])?")


@dataclass(frozen=True)
class StepReads:
    """The parts of a state that the claims about steps of a system look at.

    Attributes:
        any: whether there are such claims.
        running: which actors run.
        messages: messages on their way.
    """

    any: bool
    running: bool
    messages: bool

    @classmethod
    def of(cls, system: System) -> StepReads:
        claims = [e for p in system.properties.values() if p.kind == "step" for e in (p.when, p.claim)]
        running = any(x.mentions(e, lambda node: x.is_query(node, "running")) for e in claims)
        messages = any(x.mentions(e, x.reads_messages) for e in claims)
        return cls(bool(claims), running, messages)


class CompositeSteps(TaskEffects):
    """The effects of one step beside what a relation says of it."""

    def __init__(self, schema: StateSchema, constants: Mapping[str, Any]) -> None:
        super().__init__(schema, constants)
        self.reads = StepReads.of(self.system)

    # Actors that stop together

    def _others_down(self, s: SymbolicState, role: Role, me: Term, died: Term) -> SymbolicState:
        """The state in which, with an actor that died, those of its node have stopped, or all in a power cut."""
        cut = self.sorts.constant("cut", t.BOOL)
        nodes = []
        for names in self.system.faults.nodes.values():
            members = [member for member in map(self._up_of, names) if member is not None]
            own = disjunction(*(self._is_up_of(member, *self.schema.up(role, me)) for member in members))
            nodes.append((conjunction(self.sorts.constant("node", t.BOOL), own), members))

        def falls(key: Key, *at: Term) -> Term:
            together = [
                conjunction(stops, disjunction(*(self._is_up_of(member, key, at) for member in members)))
                for stops, members in nodes
            ]
            return conjunction(died, disjunction(cut, *together))

        for key in self.schema.variables:
            if key[0] == "up":
                s = s.write(key, partial(falls, key), lambda *at: z3.BoolVal(False))
        return s

    def _up_of(self, actor: str) -> tuple[Key, tuple[Term, ...]] | None:
        """The variable of whether an actor runs, by its name: one that is declared, or a machine of its own."""
        if actor in self.system.actors:
            return ("up", actor), ()
        matched = _MACHINE.fullmatch(actor)
        role = self.system.roles.get(matched["role"]) if matched is not None else None
        if matched is None or role is None:
            return None
        return self.schema.up(role, z3.IntVal(int(matched["instance"] or 0)))

    def _is_up_of(self, member: tuple[Key, tuple[Term, ...]], key: Key, at: Sequence[Term]) -> Term:
        return same_places(member[1], at) if member[0] == key else z3.BoolVal(False)

    # Channels that crashes empty

    def _emptied(self, s: SymbolicState, died: Term) -> SymbolicState:
        """The state in which channels may have lost any messages, where an actor died that they were on their way to.

        It may be several actors that stop, so nothing is said of which lanes are emptied.
        """
        for channel in (c for c in self.system.channels.values() if c.on_crash == "lost" and c.kind != "set"):
            stays = self._some("stays", (*self.schema.ends(channel), NUMBER), t.BOOL)
            key = ("present", channel.name)

            def left(*at: Term, of: SymbolicState = s, key: Key = key, stays: Callable[..., Term] = stays) -> Term:
                return conjunction(of.read(key, *at), disjunction(z3.Not(died), stays(*at)))

            s = s.write(key, lambda *at: z3.BoolVal(True), left)
        return s

    # Mailboxes that forget

    def _forgotten(self, before: SymbolicState, after: SymbolicState, channel: Channel) -> SymbolicState:
        """The state in which a mailbox has forgotten older messages of the kind of a new one, but for the last."""
        ends = self.schema.ends(channel)
        last = self._some("last", ends, NUMBER)

        def older(*at: Term) -> Term:
            *lane, number = at
            top, kept = after.sent(channel, lane), last(*lane)
            kind = after.read(("kind", channel.name), *lane, top)
            new = conjunction(before.sent(channel, lane) < top, after.read(("present", channel.name), *lane, top))
            alike = [after.read(("kind", channel.name), *lane, n) == kind for n in (number, kept)]
            waits = after.read(("present", channel.name), *lane, kept)
            between = conjunction(after.received(channel, lane) < number, number < kept, kept < top)
            return conjunction(new, between, waits, *alike)

        return after.write(("present", channel.name), older, lambda *at: z3.BoolVal(False))

    def _some(self, name: str, of: Sequence[t.Type], result: t.Type) -> Callable[..., Term]:
        """Any value for each combination of arguments."""
        if not of:
            value = self.sorts.constant(name, result)
            return lambda: value
        return self.sorts.function(name, of, result)

    # Machines that recover together

    def work_by_task(self, role: Role, states: Sequence[str]) -> Iterator[tuple[Piece, list[str]]]:
        """The work that recovery does again, and the states that begin it, in its order."""
        of_role = [
            (state, piece) for (name, state), work in self.lowered.work.items() if name == role.name for piece in work
        ]
        by_task = {piece.task.name: piece for _, piece in of_role}
        order = {name: n for n, name in enumerate(by_task)}
        own = [[order[piece.task.name] for in_state, piece in of_role if in_state == state] for state in role.states]
        # What is sent may depend on what was driven before; and no order of all tasks may be that of each state.
        reads = any(x.mentions(e, reads_others) for _, piece in of_role for e in piece.fields)
        if reads or any(tasks != sorted(tasks) for tasks in own):
            yield from ((piece, [state]) for state, piece in of_role if state in states)
            return
        for name, piece in by_task.items():
            yield piece, [state for state in states if name in role.states[state].tasks]

    def _all_again(self, work: PartialStep, s: SymbolicState, role: Role, states: Sequence[str], died: Term) -> None:
        """All machines of a role do the work of their states again; where their actor dies, any part of it."""
        pieces = list(self.work_by_task(role, states))
        for piece, inside in pieces:
            if piece.channel is not None:
                self._all_send(work, s, role, piece, piece.channel, inside, died)
        for driven in {piece.target.name: piece.target for piece, _ in pieces if piece.channel is None}.values():
            mine = [(piece, inside) for piece, inside in pieces if piece.channel is None and piece.target is driven]
            self._all_drive(work, s, role, driven, mine, died)

    def _wants(self, s: SymbolicState, role: Role, piece: Piece, states: Sequence[str], me: Term, other: Term) -> Term:
        """Returns whether a machine has a piece of work to do in its state."""
        inside = disjunction(*(s.is_in(role.name, me, state) for state in states))
        frame = self.frame(s, me, it=other)
        return conjunction(inside, *(term(e, frame) for e in piece.conditions))

    def _all_send(
        self,
        work: PartialStep,
        s: SymbolicState,
        role: Role,
        piece: Piece,
        channel: Channel,
        states: Sequence[str],
        died: Term,
    ) -> None:
        now, message = work.state, self.system.messages[piece.event]
        fields = {f.name: e for f, e in zip(message.fields, piece.fields, strict=True)}
        done = self._some("done", self.schema.ends(channel), t.BOOL)

        def lane(*at: Term) -> tuple[Term, Term]:
            me, other = self.schema.sender(channel, at), self.schema.receiver(channel, at)
            same = me == other if channel.same_index else z3.BoolVal(True)
            doing = disjunction(z3.Not(died), done(*at[: len(self.schema.ends(channel))]))
            return conjunction(same, self._wants(s, role, piece, states, me, other), doing), other

        def content(name: str, *ends: Term) -> Any:
            frame = self.frame(now, self.schema.sender(channel, ends), it=self.schema.receiver(channel, ends))
            return term(fields[name], frame)

        self._put_in(work, channel, message, lane, content, lambda other: z3.BoolVal(True), True)

    def _all_drive(
        self,
        work: PartialStep,
        s: SymbolicState,
        role: Role,
        driven: Role,
        pieces: Sequence[tuple[Piece, Sequence[str]]],
        died: Term,
    ) -> None:
        """Each subsidiary machine is driven by one machine; one that two drive, in any order, comes to any state.

        Where some machine drives it, `one` of these is chosen, so none of the work is left out.
        """
        of = (driven.instance,) if driven.indexed else ()
        one, two = (self._some("driver", of, role.instance) for _ in range(2))

        def drives(me: Term, other: Term) -> Term:
            inside = self.sorts.within(role.instance, me)
            return conjunction(inside, disjunction(*(self._wants(s, role, p, st, me, other) for p, st in pieces)))

        for piece, states in pieces:
            done = self._done(driven, died)

            def wanted(
                other: Term, piece: Piece = piece, states: Sequence[str] = states, done: Callable[[Term], Term] = done
            ) -> Term:
                me = one(*self.schema.at(driven, other))
                inside = self.sorts.within(role.instance, me)
                return conjunction(inside, self._wants(s, role, piece, states, me, other), done(other))

            self._driven_by(work, piece, lambda other: one(*self.schema.at(driven, other)), wanted)

        def chosen(other: Term, me: Term) -> Term:
            return z3.Implies(drives(me, other), drives(one(*self.schema.at(driven, other)), other))

        work.given.append(self.sorts.for_all((driven.instance, role.instance), chosen))

        def both(*at: Term) -> Term:
            other = at[0] if at else z3.IntVal(0)
            return conjunction(one(*at) != two(*at), drives(one(*at), other), drives(two(*at), other))

        anything = self.schema.unknown(str(self.sorts.constant("driven", t.INT)))
        for key in (("state", driven.name), *(("data", driven.name, name) for name in driven.data)):
            work.state = work.state.write(key, both, lambda *at, key=key: anything.read(key, *at))

    def why_no_recovery(self, machines: Sequence[Role]) -> str:
        """Returns why recovery of one actor for all machines of these roles has no encoding; empty where it has one."""
        for role in machines:
            pieces = [piece for (name, _), work in self.lowered.work.items() if name == role.name for piece in work]
            reading = [p.task.name for p in pieces if any(x.mentions(e, reads_others) for e in p.fields)]
            if reading:
                again = f"{reading[0]}, which it does for each when it recovers, reads other machines"
                return f"one actor plays all {role.name} machines, and {again}"
        return ""
