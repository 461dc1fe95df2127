"""Auxiliary invariants, which the prover adds to the properties and lemmas of a system.

They say that data stay within their types' ranges, that numbers of messages are ordered, and what follows from how
machines send messages. They are candidates: induction finds which of them hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import z3

from leasehold.checker.prove.encode.encoding import Claim, Encoding, Kind
from leasehold.checker.prove.encode.formulas import Term, conjunction, disjunction
from leasehold.checker.prove.encode.state import NUMBER, Key, StateVariable, SymbolicState
from leasehold.checker.prove.encode.terms import Bindings, StepLabel, term
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Channel, Message, Role, Send, System, Transition


def auxiliary_invariants(encoding: Encoding) -> Iterator[Claim]:
    """All candidates for a system."""
    system = encoding.system
    yield from _ranges(encoding)
    channels = [channel for channel in system.channels.values() if channel.kind != "set"]
    for channel in channels:
        yield _numbers(encoding, channel)
    for message in system.messages.values():
        channel = system.channel_of(message.name)
        if channel.kind == "set":
            yield from _excluded(encoding, channel, message)
        else:
            yield _sender_was_there(encoding, channel, message)
    for channel in channels:
        yield (_one_at_each_place if encoding.schema.several_send(channel) else _nothing_sent)(encoding, channel)
    for role in system.roles.values():
        for state in role.states.values():
            # A state that is never left may send for ever; one before may have sent a message that is not received.
            left = any(transition.target != state.name for choices in state.on.values() for transition in choices)
            for task in (role.tasks[name] for name in state.tasks if isinstance(role.tasks[name], Send)):
                assert isinstance(task, Send)
                channel = system.channel_of(task.message)
                if channel.kind == "mailbox":
                    yield _last_message(encoding, role, state.name, task, channel)
                    again = _sends_before(role, state.name, channel) or _sends_again(system, role, state.name, channel)
                    if left and not again:
                        yield _one_unreceived(encoding, role, state.name, channel)


def _for_all(
    encoding: Encoding,
    name: str,
    kind: Kind,
    of: tuple[t.Type, ...],
    holds: Callable[..., Term],
    speaks_of_messages: bool = True,
) -> Claim:
    """The claim that something holds in a state, for all values of some types."""

    def meaning(s: SymbolicState, before: SymbolicState | None, took: StepLabel) -> Term:
        return encoding.sorts.for_all(of, partial(holds, s))

    return Claim(name, kind, meaning, speaks_of_messages=speaks_of_messages)


# Data and numbers


def _ranges(encoding: Encoding) -> Iterator[Claim]:
    """Data stay within their types."""
    from_messages = _data_from_messages(encoding.system)
    for key, variable in encoding.schema.variables.items():
        if key[0] in ("data", "field", "now") and _is_bounded(variable.type):
            messages = key[0] == "field" or (key[0] == "data" and key[1:] in from_messages)
            name, inside = f"range of {'.'.join(key[1:]) or key[0]}", partial(_inside, encoding, variable)
            yield _for_all(encoding, name, "range", variable.arguments, inside, messages)


def _inside(encoding: Encoding, variable: StateVariable, s: SymbolicState, *at: Term) -> Term:
    """A variable is within its type; a field is, of a message that is pending."""
    holds = encoding.sorts.within(variable.type, variable.read(s.functions, at))
    if variable.key[0] != "field":
        return holds
    channel = encoding.system.channels[variable.key[1]]
    return z3.Implies(conjunction(*s.pending_kind(channel, at, variable.key[2])), holds)


def _is_bounded(type_: t.Type) -> bool:
    """Returns whether a solver term of a type may be no value of it; a number of an instance may be too high."""
    return t.has_bounds(type_) or isinstance(t.number_of(type_), t.Instance)


def _data_from_messages(system: System) -> set[Key]:
    """Data, by role and name, whose values come from messages, also by way of other data."""
    keys: set[Key] = set()
    updates = [
        (transition, (update.holder(role.name), update.name), update.value)
        for role in system.roles.values()
        for transition in role.transitions()
        for update in transition.updates
    ]

    def is_from_message(transition: Transition, node: x.Expression) -> bool:
        if isinstance(node, x.Argument):
            return transition.event in system.messages
        return isinstance(node, x.Data) and (node.role, node.name) in keys

    while True:
        more = {key for tr, key, value in updates if x.mentions(value, partial(is_from_message, tr))}
        if more <= keys:
            return keys
        keys |= more


def _numbers(encoding: Encoding, channel: Channel) -> Claim:
    """Numbers of messages are ordered: received <= sent, and no message has a number above the last sent.

    What a fifo or queue has delivered is gone from it.
    """
    of = encoding.schema.ends(channel)

    def meaning(s: SymbolicState, before: SymbolicState | None, took: StepLabel) -> Term:
        def ordered(*ends: Term) -> Term:
            sent, received = s.sent(channel, ends), s.received(channel, ends)
            return conjunction(received >= 0, received <= sent)

        def given(*at: Term) -> Term:
            low_enough = at[-1] <= s.sent(channel, at[:-1])
            new = at[-1] > s.received(channel, at[:-1]) if channel.durable else at[-1] >= 0
            return z3.Implies(s.read(("present", channel.name), *at), conjunction(new, low_enough))

        return conjunction(encoding.sorts.for_all(of, ordered), encoding.sorts.for_all((*of, NUMBER), given))

    return Claim(f"numbers in {channel.name}", "numbers", meaning, speaks_of_messages=True)


# Messages


def _sender_was_there(encoding: Encoding, channel: Channel, message: Message) -> Claim:
    """The sender of a pending message is in a state that sends it, or in a later one."""
    role = encoding.system.roles[message.sender]
    later = _later(role, message.name)

    def was(s: SymbolicState, *at: Term) -> Term:
        sender, there = encoding.schema.sender(channel, at), conjunction(*s.pending_kind(channel, at, message.name))
        return z3.Implies(there, disjunction(*(s.is_in(role.name, sender, state) for state in later)))

    return _for_all(encoding, f"{message.name} was sent", "messages", (*encoding.schema.ends(channel), NUMBER), was)


def _excluded(encoding: Encoding, channel: Channel, message: Message) -> Iterator[Claim]:
    """Yields a claim for any two states: while a message is in a set, its sender and receiver are not in these."""
    schema, (sender, receiver) = encoding.schema, (encoding.system.roles[n] for n in (message.sender, message.receiver))
    variable = schema.variables["in", channel.name, message.name]

    def apart(one: str, other: str, s: SymbolicState, *at: Term) -> Term:
        here = s.is_in(sender.name, schema.sender(channel, at), one)
        there = s.is_in(receiver.name, schema.receiver(channel, at), other)
        return z3.Not(conjunction(s.functions[variable.key](*at), here, there))

    for one, other in product(sender.states, receiver.states):
        name = f"no {message.name} from {sender.name}/{one} to {receiver.name}/{other}"
        yield _for_all(encoding, name, "messages", variable.arguments, partial(apart, one, other))


def _nothing_sent(encoding: Encoding, channel: Channel) -> Claim:
    """A machine that has not reached a state that sends has sent nothing."""
    role = encoding.system.roles[channel.sender]
    spoken = {state for message in encoding.schema.messages(channel) for state in _later(role, message.name)}
    silent = [name for name in role.states if name not in spoken]

    def none(s: SymbolicState, *ends: Term) -> Term:
        me = encoding.schema.sender(channel, ends)
        inside = disjunction(*(s.is_in(role.name, me, name) for name in silent))
        return z3.Implies(inside, s.sent(channel, ends) == 0)

    name = f"{role.name} has sent nothing in {channel.name}"
    return _for_all(encoding, name, "messages", encoding.schema.ends(channel), none)


def _one_at_each_place(encoding: Encoding, channel: Channel) -> Claim:
    """A number of a queue's line is that of one sender's message."""
    schema = encoding.schema
    sender = encoding.system.roles[channel.sender].instance

    def one(s: SymbolicState, *at: Term) -> Term:
        first, second, *receiver, number = at
        lanes = [schema.between(channel, end, receiver[0] if receiver else z3.IntVal(0)) for end in (first, second)]
        both = (s.read(("present", channel.name), *lane, number) for lane in lanes)
        return z3.Implies(conjunction(*both), first == second)

    of = (sender, sender, *schema.line_types(channel), NUMBER)
    return _for_all(encoding, f"one message at each place in {channel.name}", "messages", of, one)


def _later(role: Role, message: str) -> list[str]:
    """The states that send a message, and those that come after them."""

    def sends(names: tuple[str, ...]) -> bool:
        tasks = (role.tasks[name] for name in names)
        return any(isinstance(task, Send) and task.message == message for task in tasks)

    transitions = list(role.transitions())
    states = {state.name for state in role.states.values() if sends(state.tasks)}
    states |= {transition.target for transition in transitions if sends(transition.also)}
    while more := {tr.target for tr in transitions if tr.source in states} - states:
        states |= more
    return sorted(states)


def _sends_before(role: Role, state: str, channel: Channel) -> bool:
    """Returns whether the machine may come to a state from another with a task that sends through the channel."""
    sources = {tr.source for tr in role.transitions() if tr.target == state and tr.source != state}
    tasks = (role.tasks[name] for source in sources for name in role.states[source].tasks)
    return any(isinstance(task, Send) and task.message in channel.messages for task in tasks)


def _sends_again(system: System, role: Role, state: str, channel: Channel) -> bool:
    """Returns whether the machine may enter a state that sends once more, on no message of its receiver."""
    again = (tr for tr in role.transitions() if tr.source == tr.target == state and not tr.internal)
    answers = {m.name for m in system.messages.values() if (m.sender, m.receiver) == (channel.receiver, role.name)}
    return any(tr.event not in answers for tr in again)


def _one_unreceived(encoding: Encoding, role: Role, state: str, channel: Channel) -> Claim:
    """Returns the claim: while a machine is in a state, at most one of its messages has not been received."""

    def one(s: SymbolicState, *ends: Term) -> Term:
        inside = s.is_in(role.name, encoding.schema.sender(channel, ends), state)
        return z3.Implies(inside, s.sent(channel, ends) <= s.received(channel, ends) + 1)

    name = f"{role.name}/{state} has one message unreceived in {channel.name}"
    return _for_all(encoding, name, "messages", encoding.schema.ends(channel), one)


def _last_message(encoding: Encoding, role: Role, state: str, task: Send, channel: Channel) -> Claim:
    """The last message of a machine, while it is pending, has the content that its state gives it."""
    schema, message = encoding.schema, encoding.system.messages[task.message]

    def as_sent(s: SymbolicState, *ends: Term) -> Term:
        me, other = schema.sender(channel, ends), schema.receiver(channel, ends)
        frame = Bindings(encoding.sorts, s, encoding.constants, me, variables={"it": other})
        wanted = [term(e, frame) for e in (task.when, task.only) if e is not None]
        same = [me == other] if channel.same_index and role.indexed else []
        last = s.sent(channel, ends)
        given = [s.is_in(role.name, me, state), *wanted, *same, s.pending(channel, ends, last)]
        fields = {f.name: term(task.fields[f.name], frame) for f in message.fields}
        right = s.message(channel, ends, last).equals(message, fields.__getitem__, encoding.sorts)
        return z3.Implies(conjunction(*given), right)

    name = f"{role.name}/{state} last sent {task.name}"
    return _for_all(encoding, name, "messages", schema.ends(channel), as_sent)
