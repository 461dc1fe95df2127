"""A message on its way, as solver terms: its kind, its fields, its rank, and whether it is the latest of its lane."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import z3

from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction, disjunction
from leasehold.checker.prove.encode.values import Sorts
from leasehold.spec.language.model import Message
from leasehold.spec.language.types import Enum, Type

ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class MessageLane(NamedTuple):
    """The line of a message found on its way: its channel, the machines, the state, and its true number in it.

    In a queue the line is that of the receiver, which has the messages of all senders.
    """

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
    the two machines. Where its number is a place in a line, `comes_next` makes the formula that it is the first there;
    the place does not tell it apart from an equal message.
    """

    is_kind: Callable[[str], Term]
    field: Callable[[str, str], Any]
    number: Term
    kinds: Sequence[Message]
    lane: MessageLane | None = None
    latest: Term = None
    ends: tuple[Term, Term] = (None, None)
    comes_next: Callable[[], Term] | None = None

    def equals(self, kind: Message, fields: Callable[[str], Any], sorts: Sorts) -> Term:
        """Returns the formula that it is of a kind, and has these fields."""
        same = (sorts.equal(self.field(kind.name, f.name), fields(f.name)) for f in kind.fields)
        return conjunction(self.is_kind(kind.name), *same)


def message_field(message: MessageValue, name: str, of: Type, sorts: Sorts) -> Any:
    """Returns the value of a field of a message, or of what each message has, which is of a type.

    Raises:
        Unencodable: it is the number, of which the order alone is known.
    """
    if name == "number":
        raise Unencodable(_order_alone(message))
    if name == "latest":
        return message.latest
    if name in ("sender", "receiver"):
        return message.ends[name == "receiver"]

    def value_of(kind: str) -> Any:
        return sorts.member(of, kind) if name == "kind" and isinstance(of, Enum) else message.field(kind, name)

    first, *others = [(kind.name, value_of(kind.name)) for kind in message.kinds]
    value = first[1]
    for kind, other in others:
        value = sorts.choice(message.is_kind(kind), other, value)
    return value


def same_message(a: MessageValue, b: MessageValue, sorts: Sorts) -> Term:
    kinds = [
        conjunction(b.is_kind(kind.name), a.equals(kind, partial(b.field, kind.name), sorts))
        for kind in a.kinds
        if kind in b.kinds
    ]
    numbers = [] if a.comes_next or b.comes_next else [ranks_compared(operator.eq, a, b, sorts)]
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


def rank_compared(op: str, message: MessageValue, other: int) -> Term:
    """Returns how the rank of a message compares with a number.

    Raises:
        Unencodable: that takes more than is known: whether it is 0, and in a line whether it is 1.
    """
    order = ORDERS[op]
    if message.lane is None or other == 0 or (other, op) in ((1, ">="), (1, "<")):
        return order(message.number, z3.IntVal(other))
    if message.comes_next is not None and (other == 1 or (other, op) in ((2, ">="), (2, "<"))):
        return message.comes_next() if order(1, other) else z3.Not(message.comes_next())
    raise Unencodable(_order_alone(message))


def _order_alone(message: MessageValue) -> str:
    """Returns what is known of a message's number, where it has no encoding."""
    known = "0" if message.comes_next is None else "0 or 1"
    return f"the prover knows of a message's number whether it is {known}, and how it compares with another's"
