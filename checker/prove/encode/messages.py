"""A message on its way, as solver terms: its kind, its fields, its rank, and whether it is the latest of its lane."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import z3

from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction, disjunction
from leasehold.checker.prove.encode.values import Sorts
from leasehold.spec.language.model import Message


class MessageLane(NamedTuple):
    """The place of a message found on its way: its channel, the two machines, the state, and its true number."""

    channel: str
    ends: tuple[Term, ...]
    state: object
    number: Term

    def is_that_of(self, other: MessageLane) -> bool:
        """Returns whether both are between the same machines, in the same state, whatever their values are."""
        same = self.channel == other.channel and self.state is other.state
        return same and all(a.eq(b) for a, b in zip(self.ends, other.ends, strict=True))


@dataclass(frozen=True)
class MessageValue:
    """A message on its way: its kind as a term, its fields by kind and name, its rank, and the kinds it may be of.

    Between two machines, and in one state, the rank has the order of the true one; `lane` names them. None: it is the
    true rank. `latest` says whether it is the last one that was sent between them; None: it has no number. `ends` are
    the two machines. Where it has a place in a line alone, `ranked` is false: the number does not tell it apart.
    """

    is_kind: Callable[[str], Term]
    field: Callable[[str, str], Any]
    number: Term
    kinds: Sequence[Message]
    lane: MessageLane | None = None
    latest: Term = None
    ends: tuple[Term, Term] = (None, None)
    ranked: bool = True

    def equals(self, kind: Message, fields: Callable[[str], Any], sorts: Sorts) -> Term:
        """Returns the formula that it is of a kind, and has these fields."""
        same = (sorts.equal(self.field(kind.name, f.name), fields(f.name)) for f in kind.fields)
        return conjunction(self.is_kind(kind.name), *same)


def message_field(message: MessageValue, name: str) -> Any:
    if name == "number":
        raise Unencodable("a message's number but in comparison with 0 or another's")
    if name == "kind":
        raise Unencodable("the kind of a message on its way")
    if name == "latest":
        return message.latest
    if name in ("sender", "receiver"):
        return message.ends[name == "receiver"]
    first, *others = [(kind.name, message.field(kind.name, name)) for kind in message.kinds]
    value = first[1]
    for kind, other in others:
        value = z3.If(message.is_kind(kind), other, value)
    return value


def same_message(a: MessageValue, b: MessageValue, sorts: Sorts) -> Term:
    kinds = [
        conjunction(b.is_kind(kind.name), a.equals(kind, partial(b.field, kind.name), sorts))
        for kind in a.kinds
        if kind in b.kinds
    ]
    numbers = [ranks_compared(operator.eq, a, b, sorts)] if a.ranked and b.ranked else []
    return conjunction(*numbers, disjunction(*kinds))


def ranks_compared(order: Callable[[Term, Term], Term], a: MessageValue, b: MessageValue, sorts: Sorts) -> Term:
    """Returns how the ranks of two messages compare.

    Between other machines gaps count, and in another state others may have been received, so little is known then.
    A true rank is 0 where the number is; else it is at least 1, and at most the number.
    """
    compared = order(a.number, b.number)
    if a.lane is None and b.lane is None:
        return compared
    if a.lane and b.lane and a.lane.is_that_of(b.lane):  # then the solver may take one number for the other
        return order(a.lane.number, b.lane.number)
    known = [a.number == 0, b.number == 0, conjunction(a.number == 1, b.number == 1)]
    otherwise = z3.If(disjunction(*known), compared, sorts.anything("rank"))
    if a.lane and b.lane and a.lane.channel == b.lane.channel and a.lane.state is b.lane.state:
        same = conjunction(*(one == other for one, other in zip(a.lane.ends, b.lane.ends, strict=True)))
        return z3.If(same, order(a.lane.number, b.lane.number), otherwise)
    return otherwise
