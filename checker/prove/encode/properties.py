"""The claims about a system: its properties, its lemmas, and auxiliary invariants that the prover adds by itself.

Auxiliary invariants say that data stay within their types' ranges, that numbers of messages are ordered, and what
follows from how machines send messages (message_invariants.py). They are candidates: induction finds which of them
hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import z3

from leasehold.checker.prove.encode.encoding import Claim, Encoding, Kind
from leasehold.checker.prove.encode.message_invariants import message_invariants
from leasehold.checker.prove.encode.state import NUMBER, Key, SymbolicState
from leasehold.checker.prove.encode.terms import Bindings, StepLabel, term
from leasehold.checker.prove.encode.values import Term, Unencodable, conjunction
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.lint import expressions
from leasehold.spec.language.model import Channel, Property, System, Transition


def claims(encoding: Encoding) -> list[Claim]:
    """The properties about states and steps, the lemmas, and the auxiliary invariants.

    Properties that speak of Byzantine roles are left out: in the transition relation every role follows its text.
    """
    system = encoding.system
    found = [
        _claim(encoding, p, "step" if p.kind == "step" else "always")
        for p in system.properties.values()
        if p.kind in ("always", "step") and not _is_about_byzantine(p)
    ]
    found += [_claim(encoding, p, "lemma") for p in system.lemmas.values()]
    return [*found, *_ranges(encoding), *_numbers(encoding), *message_invariants(encoding)]


def _claim(encoding: Encoding, p: Property, kind: Kind) -> Claim:
    def meaning(s: SymbolicState, before: SymbolicState | None, took: StepLabel) -> Term:
        bindings = Bindings(encoding.sorts, s, encoding.constants, before=before, took=took)
        claim = term(p.claim, bindings)
        return claim if p.when is None else z3.Implies(term(p.when, bindings), claim)

    messages = any(x.mentions(e, is_about_messages) for e in (p.when, p.claim))
    try:
        meaning(encoding.before, encoding.before if kind == "step" else None, StepLabel())
    except Unencodable as error:
        return Claim(p.name, kind, meaning, str(error), messages)
    return Claim(p.name, kind, meaning, "", messages)


def _ranges(encoding: Encoding) -> Iterator[Claim]:
    """Data stay within their types."""
    from_messages = _data_from_messages(encoding.system)
    for key, variable in encoding.schema.variables.items():
        if key[0] not in ("data", "field", "now") or not _is_bounded(variable.type):
            continue

        def meaning(
            s: SymbolicState, before: SymbolicState | None, took: StepLabel, variable: Any = variable
        ) -> Term:  # fmt: skip
            def inside(*at: Term) -> Term:
                holds = encoding.within(variable.type, variable.read(s.functions, at))
                if variable.key[0] != "field":
                    return holds
                channel = encoding.system.channels[variable.key[1]]
                *ends, number = at
                is_kind = s.message(channel, tuple(ends), number).is_kind(variable.key[2])
                return z3.Implies(conjunction(s.pending(channel, tuple(ends), number), is_kind), holds)

            return encoding.sorts.for_all(variable.arguments, inside)

        name = f"range of {'.'.join(key[1:]) or key[0]}"
        messages = key[0] == "field" or (key[0] == "data" and key[1:] in from_messages)
        yield Claim(name, "range", meaning, speaks_of_messages=messages)


def _data_from_messages(system: System) -> set[Key]:
    """Data, by role and name, whose values come from messages, also by way of other data."""
    found: set[Key] = set()
    updates = [
        (transition, (role.name, update.name), update.value)
        for role in system.roles.values()
        for transition in role.transitions()
        for update in transition.updates
    ]

    def is_from_message(transition: Transition, node: x.Expression) -> bool:
        if isinstance(node, x.Argument):
            return transition.event in system.messages
        return isinstance(node, x.Data) and (node.role, node.name) in found

    while True:
        more = {key for tr, key, value in updates if x.mentions(value, partial(is_from_message, tr))}
        if more <= found:
            return found
        found |= more


def _numbers(encoding: Encoding) -> Iterator[Claim]:
    """Numbers of messages are ordered: received <= sent, and no message has a number above the last sent."""
    for channel in encoding.system.channels.values():
        if channel.kind == "set":
            continue

        def meaning(
            s: SymbolicState, before: SymbolicState | None, took: StepLabel, channel: Channel = channel
        ) -> Term:  # fmt: skip
            of = encoding.schema.ends(channel)

            def ordered(*ends: Term) -> Term:
                sent, received = (s.read((k, channel.name), *ends) for k in ("sent", "received"))
                return conjunction(received >= 0, received <= sent)

            def given(*at: Term) -> Term:
                number = at[-1]
                low_enough = number <= s.read(("sent", channel.name), *at[:-1])
                return z3.Implies(s.read(("present", channel.name), *at), conjunction(number >= 0, low_enough))

            return conjunction(encoding.sorts.for_all(of, ordered), encoding.sorts.for_all((*of, NUMBER), given))

        yield Claim(f"numbers in {channel.name}", "numbers", meaning, speaks_of_messages=True)


def is_about_messages(node: x.Expression) -> bool:
    """Whether a part of an expression is about messages on their way."""
    return x.reads_messages(node) or isinstance(node, x.MessageField)


def steps_read_messages(system: System) -> bool:
    """Whether the effect of a step depends on messages on their way, beside the one that it takes."""
    return _steps_mention(system, is_about_messages)


def steps_read_reachability(system: System) -> bool:
    """Whether the effect of a step depends on partitions of the network."""
    return _steps_mention(system, lambda node: x.is_query(node, "reachable"))


def _steps_mention(system: System, what: Callable[[x.Expression], bool]) -> bool:
    return any(x.mentions(e, what) for e in expressions(replace(system, properties={})))


def _is_about_byzantine(p: Property) -> bool:
    return any(x.mentions(e, lambda node: x.is_query(node, "byzantine")) for e in (p.when, p.claim))


def _is_bounded(type_: t.Type) -> bool:
    match type_:
        case t.Int(low=low, high=high):
            return low is not None or high is not None
        case t.Time() | t.Instance():
            return True
        case t.Map(of=of) | t.Option(of=of):
            return of is not None and _is_bounded(of)
    return False
