"""Auxiliary invariants about messages, which follow from how machines send them.

They are candidates; induction finds which of them hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import z3

from leasehold.checker.prove.encode.encoding import Claim, Encoding
from leasehold.checker.prove.encode.state import NUMBER, SymbolicState
from leasehold.checker.prove.encode.terms import Bindings, StepLabel, term
from leasehold.checker.prove.encode.values import Term, conjunction, disjunction
from leasehold.spec.language.model import Channel, Message, Role, Send


def message_invariants(encoding: Encoding) -> Iterator[Claim]:
    """All candidates for a system."""
    for message in encoding.system.messages.values():
        channel = encoding.system.channel_of(message.name)
        if channel.kind == "set":
            yield from _excluded(encoding, channel, message)
        else:
            yield _sender_was_there(encoding, channel, message)
    for channel in encoding.system.channels.values():
        if channel.kind != "set":
            yield _nothing_sent(encoding, channel)
    for role in encoding.system.roles.values():
        for state in role.states.values():
            # A state that is never left may send for ever; one before may have sent a message that is not received.
            left = any(transition.target != state.name for choices in state.on.values() for transition in choices)
            for name in state.tasks:
                task = role.tasks[name]
                if not isinstance(task, Send):
                    continue
                channel = encoding.system.channel_between(role.name, task.receiver)
                if channel.kind == "mailbox":
                    yield _last_message(encoding, role, state.name, task)
                    if left and not _sends_before(role, state.name, channel):
                        yield _one_unreceived(encoding, role, state.name, channel)


def _sender_was_there(encoding: Encoding, channel: Channel, message: Message) -> Claim:
    """The sender of a pending message is in a state that sends it, or in a later one."""
    role = encoding.system.roles[message.sender]
    later = _later(role, message.name)

    def meaning(s: SymbolicState, before: SymbolicState | None, took: StepLabel) -> Term:
        def was(*at: Term) -> Term:
            *ends, number = at
            sender = ends[0] if role.indexed else z3.IntVal(0)
            kind = s.message(channel, tuple(ends), number).is_kind(message.name)
            there = conjunction(s.pending(channel, tuple(ends), number), kind)
            return z3.Implies(there, disjunction(*(s.is_in(role.name, sender, state) for state in later)))

        return encoding.sorts.for_all((*encoding.schema.ends(channel), NUMBER), was)

    return Claim(f"{message.name} was sent", "messages", meaning, speaks_of_messages=True)


def _excluded(encoding: Encoding, channel: Channel, message: Message) -> Iterator[Claim]:
    """While a message is in a set, its sender and its receiver are not in some two states; a claim for any two."""
    sender, receiver = encoding.system.roles[message.sender], encoding.system.roles[message.receiver]
    variable = encoding.schema.variables["in", channel.name, message.name]
    width = len(encoding.schema.ends(channel))
    for one, other in product(sender.states, receiver.states):

        def meaning(
            s: SymbolicState, before: SymbolicState | None, took: StepLabel, one: str = one, other: str = other
        ) -> Term:  # fmt: skip
            def apart(*at: Term) -> Term:
                here = at[0] if sender.indexed else z3.IntVal(0)
                there = at[width - 1] if receiver.indexed else z3.IntVal(0)
                both = s.is_in(sender.name, here, one), s.is_in(receiver.name, there, other)
                return z3.Not(conjunction(s.functions[variable.key](*at), *both))

            return encoding.sorts.for_all(variable.arguments, apart)

        name = f"no {message.name} from {sender.name}/{one} to {receiver.name}/{other}"
        yield Claim(name, "messages", meaning, speaks_of_messages=True)


def _nothing_sent(encoding: Encoding, channel: Channel) -> Claim:
    """A machine that has not reached a state that sends has sent nothing."""
    role = encoding.system.roles[channel.sender]
    spoken = {state for message in encoding.schema.messages(channel) for state in _later(role, message.name)}
    silent = [name for name in role.states if name not in spoken]

    def meaning(s: SymbolicState, before: SymbolicState | None, took: StepLabel) -> Term:
        def none(*ends: Term) -> Term:
            me = ends[0] if role.indexed else z3.IntVal(0)
            inside = disjunction(*(s.is_in(role.name, me, name) for name in silent))
            return z3.Implies(inside, s.read(("sent", channel.name), *ends) == 0)

        return encoding.sorts.for_all(encoding.schema.ends(channel), none)

    return Claim(f"{role.name} has sent nothing in {channel.name}", "messages", meaning, speaks_of_messages=True)


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


def _sends_before(role: Role, state: str, channel: Channel) -> bool:
    """Whether the machine may come to a state from another that sends through the channel too, and was not answered."""
    for transition in role.transitions():
        if transition.target == state and transition.source != state:
            names = role.states[transition.source].tasks
            tasks = [role.tasks[name] for name in names]
            if any(isinstance(task, Send) and task.receiver == channel.receiver for task in tasks):
                return True
    return False


def _one_unreceived(encoding: Encoding, role: Role, state: str, channel: Channel) -> Claim:
    """While a machine is in a state, at most one of its messages has not been received."""

    def meaning(s: SymbolicState, before: SymbolicState | None, took: StepLabel) -> Term:
        def one(*ends: Term) -> Term:
            me = ends[0] if role.indexed else z3.IntVal(0)
            sent, received = (s.read((k, channel.name), *ends) for k in ("sent", "received"))
            return z3.Implies(s.is_in(role.name, me, state), sent <= received + 1)

        return encoding.sorts.for_all(encoding.schema.ends(channel), one)

    return Claim(
        f"{role.name}/{state} has one message unreceived in {channel.name}",
        "messages",
        meaning,
        speaks_of_messages=True,
    )


def _last_message(encoding: Encoding, role: Role, state: str, task: Send) -> Claim:
    """The last message of a machine, while it is pending, has the content that its state gives it."""
    system = encoding.system
    channel = system.channel_between(role.name, task.receiver)
    receiver = system.roles[task.receiver]
    message = system.messages[task.message]

    def meaning(s: SymbolicState, before: SymbolicState | None, took: StepLabel) -> Term:
        sorts = encoding.sorts

        def as_sent(*ends: Term) -> Term:
            me = ends[0] if role.indexed else z3.IntVal(0)
            other = ends[-1] if receiver.indexed else z3.IntVal(0)
            frame = Bindings(sorts, s, encoding.constants, me, variables={"it": other})
            wanted = [term(e, frame) for e in (task.when, task.only) if e is not None]
            same = [me == other] if channel.same_index and role.indexed else []
            last = s.read(("sent", channel.name), *ends)
            sent = s.message(channel, ends, last)
            given = conjunction(
                s.is_in(role.name, me, state), *wanted, *same, s.pending(channel, ends, last)
            )  # fmt: skip
            fields = (
                sorts.equal(sent.field(message.name, f.name), term(task.fields[f.name], frame)) for f in message.fields
            )
            return z3.Implies(given, conjunction(sent.is_kind(message.name), *fields))

        return sorts.for_all(encoding.schema.ends(channel), as_sent)

    return Claim(f"{role.name}/{state} last sent {task.name}", "messages", meaning, speaks_of_messages=True)
