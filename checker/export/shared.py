"""The common part of the exports: the events that may come, the values to try, words, and what cannot be exported.

Both exports render the lowered form (spec/language/lower) in another language. They take from here what is
the same in every language; how a step is written is their own.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.declare.build_fields import constant_value
from leasehold.spec.language.diagnostics import NOWHERE, Place
from leasehold.spec.language.for_each import each
from leasehold.spec.language.lower import Offer
from leasehold.spec.language.model import Channel, Datum, Property, Role, System, Transition
from leasehold.spec.language.operators import template

MOST_WITNESSES = 4096  # combinations of an event's fields, each of which is written out
SLOTS = 8  # of a channel without a capacity, where a model needs one


class ExportError(Exception):
    """A construct that an export cannot take: what, where and what to do about it."""

    def __init__(self, what: str, remedy: str, place: Place = NOWHERE) -> None:
        where = "" if place == NOWHERE else f"{place}: "
        super().__init__(f"{where}{what}; {remedy}")
        self.what = what


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of an exported model that a user may choose.

    Attributes:
        file: where it is to be written, if that is known; TLA+ names a module for its file.
        slots: in Promela, how many messages a channel without a capacity has room for between two machines. A run
            that needs more fails an assertion.
    """

    file: Path | None = None
    slots: int = SLOTS


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A property that the exported model does not have, and why."""

    name: str
    why: str


def without_refinement(system: System) -> list[LeftOut]:
    """Returns the note that an exported model does not have the abstract system which a system refines."""
    why = "the abstract system is not part of the model"
    return [LeftOut("refines", why)] if system.refines is not None else []


@dataclass(frozen=True, slots=True)
class Exported:
    """A model in another language.

    Attributes:
        text: the model.
        settings: what the other checker wants to be told beside it (TLC's .cfg), or nothing.
        left_out: properties that it does not have.
    """

    text: str
    settings: str = ""
    left_out: tuple[LeftOut, ...] = ()


def fair_group(offer: Offer, instance: int, values: tuple[t.Value, ...]) -> tuple[t.Value, ...] | None:
    """Returns the group in which the explorer counts a step for fairness; None: the event need never come."""
    apart = offer.told_apart(values)
    return (offer.cause, offer.role.name, instance, offer.name, *apart) if offer.fair else None


def moving(field_: Datum) -> bool:
    """Returns whether the values to try of a field depend on the clock."""
    return any(x.mentions(e, lambda n: isinstance(n, x.Now)) for e in field_.explore or ())


def begins_below_zero(system: System, field_: Datum) -> bool:
    """Returns whether the range to try of a field has at some time a lower end below 0, where no time is."""
    moments = range(system.clock.horizon + 1) if system.clock is not None and moving(field_) else [0]
    return any(constant_value(e, system.values(), now) < 0 for e in (field_.explore or ())[:1] for now in moments)


def values_to_try(system: System, field_: Datum) -> list[t.Value]:
    """The values that a field of a local event may have at any time."""
    horizon = system.clock.horizon if system.clock is not None and moving(field_) else 0
    values: dict[t.Value, None] = {}
    for now in range(horizon + 1):
        ends = field_.explore and tuple(constant_value(e, system.values(), now) for e in field_.explore)
        if t.size(field_.type, ends or None) > MOST_WITNESSES:
            raise ExportError(
                f"`{field_.name}` has more than {MOST_WITNESSES:,} values to try",
                "give it a smaller `explore`",
                field_.place,
            )
        values |= dict.fromkeys(t.domain(field_.type, ends or None))
    return list(values)


def field_values(system: System, fields: tuple[Datum, ...]) -> list[tuple[t.Value, ...]]:
    """Every combination of the values that an event's fields may have at any time."""
    domains = [values_to_try(system, f) for f in fields]
    count = 1
    for domain in domains:
        count *= len(domain)
    if count > MOST_WITNESSES:
        raise ExportError(
            f"an event with the field `{fields[0].name}` has {count:,} combinations of values",
            "give its fields a smaller `explore`",
            fields[0].place,
        )
    return list(product(*domains))


def numbered(system: System, channel: Channel) -> bool:
    """Returns whether a mailbox's numbers say more than the order of its messages.

    Where nothing is lost, repeated or overtaken, the ranks of n messages on their way are 1 to n, and the newest has
    the number n.
    """
    return bool(channel.lose or channel.reorder or repeated(system, channel))


def repeated(system: System, channel: Channel) -> bool:
    """Returns whether a message may be received twice over a mailbox.

    The network may duplicate it; or a duplicate of the request that it answers makes its sender send it again, under
    the number that it had.
    """
    back = [c for c in system.channels.values() if (c.sender, c.receiver) == (channel.receiver, channel.sender)]
    return bool(channel.duplicate or any(c.duplicate for c in back))


def names_senders(system: System, channel: Channel) -> bool:
    """Returns whether several senders share the lines of a channel, and each message in it has its sender's name."""
    return channel.kind == "queue" and system.roles[channel.sender].count > 1 and not channel.same_index


def ranges(system: System) -> Iterator[tuple[Role, Datum, tuple[x.Expression, x.Expression]]]:
    """The explored ranges of data: states outside of them are not explored."""
    for role in system.holders.values():
        for datum in role.data.values():
            if datum.explore is not None:
                yield role, datum, datum.explore


def bounded(system: System) -> bool:
    """Returns whether there are states that are generated and not explored."""
    return system.constraint is not None or any(ranges(system))


def low_high(kind: t.Type) -> tuple[int | None, int | None] | None:
    """The declared bounds of an int, also of one in a map, an option or a sequence; None where there are none."""
    number = t.number_of(kind)
    if not isinstance(number, t.Int) or number.low is number.high is None:
        return None
    return number.low, number.high


def sentence(*parts: str) -> str:
    """Words from a specification on one line, none of which ends a comment."""
    text = re.sub(r"\s+", " ", " ".join(p for p in parts if p)).strip()
    return text.replace("*/", "* /").replace("(*", "( *").replace("*)", "* )").encode("ascii", "replace").decode()


def wrapped(text: str, first: str, later: str, last: str = "") -> list[str]:
    """Words as the lines of a comment."""
    return textwrap.wrap(sentence(text) + last, 110, initial_indent=first, subsequent_indent=later)


@dataclass
class UniqueNames:
    """Names that are made of the specification's, each given once."""

    taken: set[str] = field(default_factory=set)
    made: dict[tuple[str, ...], str] = field(default_factory=dict)

    def name(self, key: tuple[str, ...], wish: str) -> str:
        """The name for a key: as wished, with a number where another key has that."""
        if key not in self.made:
            name, n = wish, 2
            while name in self.taken:
                name, n = f"{wish}_{n}", n + 1
            self.taken.add(name)
            self.made[key] = name
        return self.made[key]


def named_cases(p: Property) -> list[Property]:
    """The property for each binding of its variables, each with a name of its own."""
    return [
        replace(
            case,
            name=re.sub(r"\W+", "_", "_".join([p.name, *case.binding.values()])).rstrip("_"),
            doc=f"{p.doc} For {', '.join(f'{name}={value}' for name, value in case.binding.items())}.".strip(),
        )
        if case.binding
        else case
        for case in each(p)
    ]


def asks_what_was_taken(p: Property) -> bool:
    """Returns whether a property speaks of the event that a step consumes."""
    return any(x.mentions(e, lambda n: isinstance(n, x.Took)) for e in (p.claim, p.when))


def asks_what_was_ignored(system: System) -> bool:
    """Returns whether a property of the system speaks of messages that a step ignores."""
    claims = [e for p in system.properties.values() for e in (p.claim, p.when)]
    return any(x.mentions(e, lambda n: isinstance(n, x.Took) and n.ignored) for e in claims)


def described(tr: Transition, more: str = "") -> str:
    """A transition in words, for a comment."""
    goal = "stays" if tr.internal and tr.target == tr.source else f"to {tr.target}"
    return f"{tr.name}{more}: {goal}. {tr.doc}"


Row: TypeAlias = Callable[[x.Apply, Any], Any]


class Rows:
    """Makes rows of a format's table of operators; `term` gives the words for an operand."""

    def __init__(self, term: Callable[[x.Expression, Any], str]) -> None:
        self.term = term

    def words(self, numbers: str, sets: str = "") -> Row:
        """A row of words, or of other words for sets."""
        number, set_ = template(numbers), template(sets or numbers)

        def row(e: x.Apply, f: Any) -> str:
            return (set_ if isinstance(e.operands[0].type, t.Set) else number)(*(self.term(o, f) for o in e.operands))

        return row

    def pairwise(self, name: str) -> Row:
        return lambda e, f: reduce(lambda a, b: f"{name}({a}, {b})", [self.term(o, f) for o in e.operands])

    def proper(self, symbol: str) -> Row:
        """A comparison of numbers; of sets it would ask for a proper subset."""
        numbers = self.words(f"({{}} {symbol} {{}})")

        def row(e: x.Apply, f: Any) -> Any:
            if isinstance(e.operands[0].type, t.Set):
                raise ExportError(f"`{x.text(e)}` asks for a proper subset", "use `<=` and `!=`", e.place)
            return numbers(e, f)

        return row


def heading(system: System) -> tuple[str, str]:
    """Returns what the head of a model says of its system, with the constants as they were set."""
    shown = ", ".join(f"{name}={t.show(c.type, c.value)}" for name, c in system.constants.items())
    return f"{system.name}. {system.doc}", f"Specification {system.digest[:12]}, {shown}".rstrip(", ")
