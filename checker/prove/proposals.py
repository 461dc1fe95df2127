"""Lemmas that nobody needs to write: what follows from how machines talk.

They are proposals; induction finds which of them hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import z3

from leasehold.checker.prove.claims import Claim
from leasehold.checker.prove.terms import Frame, Took, term
from leasehold.checker.prove.values import Term, conjunction, disjunction
from leasehold.checker.prove.world import NUMBER, State
from leasehold.spec.language.model import Channel, Message, Role, Send

if TYPE_CHECKING:
    from leasehold.checker.prove.encoding import Encoding


def proposed(encoding: Encoding) -> Iterator[Claim]:
    """All proposals for a system."""
    for message in encoding.system.messages.values():
        channel = encoding.system.channel_of(message.name)
        if channel.kind != "set":
            yield _sender_was_there(encoding, channel, message)
    for channel in encoding.system.channels.values():
        if channel.kind != "set":
            yield _silent_yet(encoding, channel)
    for role in encoding.system.roles.values():
        for state in role.states.values():
            # Who stays for ever may send for ever, and who has spoken just before may not have been heard.
            left = any(transition.target != state.name for choices in state.on.values() for transition in choices)
            for name in state.tasks:
                task = role.tasks[name]
                if not isinstance(task, Send):
                    continue
                channel = encoding.system.channel_between(role.name, task.receiver)
                if channel.kind == "mailbox":
                    yield _last_said(encoding, role, state.name, task)
                    if left and not _goes_on(role, state.name, channel):
                        yield _one_unheard(encoding, role, state.name, channel)


def _sender_was_there(encoding: Encoding, channel: Channel, message: Message) -> Claim:
    """Who has sent a message is in a state that sends it, or in one that comes after such a state."""
    role = encoding.system.roles[message.sender]
    later = _later(role, message.name)

    def words(s: State, before: State | None, took: Took) -> Term:
        def was(*at: Term) -> Term:
            *ends, number = at
            sender = ends[0] if role.indexed else z3.IntVal(0)
            kind = s.message(channel, tuple(ends), number).is_kind(message.name)
            there = conjunction(s.pending(channel, tuple(ends), number), kind)
            return z3.Implies(there, disjunction(*(s.is_in(role.name, sender, state) for state in later)))

        return encoding.sorts.for_all((*encoding.world.ends(channel), NUMBER), was)

    return Claim(f"{message.name} was sent", "proposal", words, speaks_of_messages=True)


def _silent_yet(encoding: Encoding, channel: Channel) -> Claim:
    """Who has not come to a state that sends has sent nothing."""
    role = encoding.system.roles[channel.sender]
    spoken = {state for message in encoding.world.messages(channel) for state in _later(role, message.name)}
    silent = [name for name in role.states if name not in spoken]

    def words(s: State, before: State | None, took: Took) -> Term:
        def none(*ends: Term) -> Term:
            me = ends[0] if role.indexed else z3.IntVal(0)
            inside = disjunction(*(s.is_in(role.name, me, name) for name in silent))
            return z3.Implies(inside, s.read(("sent", channel.name), *ends) == 0)

        return encoding.sorts.for_all(encoding.world.ends(channel), none)

    return Claim(f"{role.name} has not spoken in {channel.name}", "proposal", words, speaks_of_messages=True)


def _later(role: Role, message: str) -> list[str]:
    """The states that send a message, and those that come after them."""

    def sends(names: tuple[str, ...]) -> bool:
        tasks = (role.tasks[name] for name in names)
        return any(isinstance(task, Send) and task.message == message for task in tasks)

    found = {state.name for state in role.states.values() if sends(state.tasks)}
    found |= {transition.target for transition in role.transitions() if sends(transition.also)}
    waiting = list(found)
    while waiting:
        at = waiting.pop()
        for choices in role.states[at].on.values():
            for transition in choices:
                if transition.target not in found:
                    found.add(transition.target)
                    waiting.append(transition.target)
    return sorted(found)


def _goes_on(role: Role, state: str, channel: Channel) -> bool:
    """Whether the machine may come to a state from another that sends through the channel too, and was not answered."""
    for transition in role.transitions():
        if transition.target == state and transition.source != state:
            names = role.states[transition.source].tasks
            tasks = [role.tasks[name] for name in names]
            if any(isinstance(task, Send) and task.receiver == channel.receiver for task in tasks):
                return True
    return False


def _one_unheard(encoding: Encoding, role: Role, state: str, channel: Channel) -> Claim:
    """While a machine is in a state, at most one of its messages has not been received."""

    def words(s: State, before: State | None, took: Took) -> Term:
        def one(*ends: Term) -> Term:
            me = ends[0] if role.indexed else z3.IntVal(0)
            sent, received = (s.read((k, channel.name), *ends) for k in ("sent", "received"))
            return z3.Implies(s.is_in(role.name, me, state), sent <= received + 1)

        return encoding.sorts.for_all(encoding.world.ends(channel), one)

    return Claim(f"{role.name}/{state} has one unheard in {channel.name}", "proposal", words, speaks_of_messages=True)


def _last_said(encoding: Encoding, role: Role, state: str, task: Send) -> Claim:
    """The last message of a machine, while it is on its way, is what its state says."""
    system = encoding.system
    channel = system.channel_between(role.name, task.receiver)
    receiver = system.roles[task.receiver]
    message = system.messages[task.message]

    def words(s: State, before: State | None, took: Took) -> Term:
        sorts = encoding.sorts

        def as_said(*ends: Term) -> Term:
            me = ends[0] if role.indexed else z3.IntVal(0)
            other = ends[-1] if receiver.indexed else z3.IntVal(0)
            frame = Frame(sorts, s, encoding.constants, me, variables={"it": other})
            wanted = [term(e, frame) for e in (task.when, task.only) if e is not None]
            same = [me == other] if channel.same_index and role.indexed else []
            last = s.read(("sent", channel.name), *ends)
            said = s.message(channel, ends, last)
            given = conjunction(
                s.is_in(role.name, me, state), *wanted, *same, s.pending(channel, ends, last)
            )  # fmt: skip
            fields = (
                sorts.equal(said.field(message.name, f.name), term(task.fields[f.name], frame)) for f in message.fields
            )
            return z3.Implies(given, conjunction(said.is_kind(message.name), *fields))

        return sorts.for_all(encoding.world.ends(channel), as_said)

    return Claim(f"{role.name}/{state} has said {task.name}", "proposal", words, speaks_of_messages=True)
