"""What the exports share: the events that may come, the values to try, words, and what cannot be taken.

Both exports write the steps of `checker/explore/transition_system.py` in another language. They take from here what is
the same in every language; how a step is written is their own.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.build import constant_value
from leasehold.spec.language.diagnostics import NOWHERE, Place
from leasehold.spec.language.model import Channel, Datum, Drive, Fair, Message, Role, Send, State, System, Transition

MOST_WITNESSES = 4096  # combinations of an event's fields, each of which is written out
SLOTS = 8  # of a channel without a capacity, where a model needs one


class Unsupported(Exception):
    """A construct that an export cannot take: what, where and what to do about it."""

    def __init__(self, what: str, remedy: str, place: Place = NOWHERE) -> None:
        where = "" if place == NOWHERE else f"{place}: "
        super().__init__(f"{where}{what}; {remedy}")
        self.what = what


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A property that the exported model does not have, and why."""

    name: str
    why: str


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


@dataclass(frozen=True, slots=True)
class Offer:
    """A local event that may come while a machine is in a state.

    Attributes:
        conditions: over the machine's own record; all must hold.
        outside: over the whole, about `it`; one of them must hold, if there are any.
        task: what it answers; None where it comes from outside.
        name: of the environment's action, for one that comes from outside.
        fair: how surely it comes, if it may come.
    """

    event: str
    conditions: tuple[x.Expression, ...]
    outside: tuple[x.Expression, ...]
    task: str | None
    name: str
    fair: Fair

    def group(self, role: str, instance: int) -> tuple[str, str, int, str] | None:
        """Of fairness, as the explorer groups steps; None: it need never come."""
        if self.task is not None:
            return ("answer", role, instance, self.task)
        return ("environment", role, instance, self.name) if self.fair else None


def offers(system: System, role: Role, state: State) -> list[Offer]:
    """The local events that may come in a state, in the explorer's order."""
    found = []
    for name in state.tasks:
        task = role.tasks[name]
        if isinstance(task, Send):
            continue
        for answer in task.answers:
            own = [task.when, task.answers[answer] if isinstance(task, Drive) else None]
            words = _said(system, role, answer)
            limits = () if any(when is None for when in words) else tuple(when for when in words if when is not None)
            found.append(Offer(answer, tuple(e for e in own if e is not None), limits, name, "", Fair.WEAK))
    answered = {a for task in role.tasks.values() if not isinstance(task, Send) for a in task.answers}
    for event in role.events:
        if event in answered:
            continue
        for action in system.environment.values():
            if (action.role, action.event) == (role.name, event):
                limits = () if action.when is None else (action.when,)
                found.append(Offer(event, (), limits, None, action.name, action.fair))
    return [offer for offer in found if offer.event in state.on]


def _said(system: System, role: Role, event: str) -> list[x.Expression | None]:
    """What the environment says about an answer: only that restricts it."""
    return [o.when for o in system.environment.values() if (o.role, o.event) == (role.name, event)]


def moving(field_: Datum) -> bool:
    """Whether the values to try of a field depend on the clock."""
    return any(x.mentions(e, lambda n: isinstance(n, x.Now)) for e in field_.explore or ())


def values_to_try(system: System, field_: Datum) -> list[t.Value]:
    """The values that a field of a local event may have at any time."""
    horizon = system.clock.horizon if system.clock is not None and moving(field_) else 0
    found: dict[t.Value, None] = {}
    for now in range(horizon + 1):
        ends = field_.explore and tuple(constant_value(e, system.values(), now) for e in field_.explore)
        if t.size(field_.type, ends or None) > MOST_WITNESSES:
            raise Unsupported(
                f"`{field_.name}` has more than {MOST_WITNESSES:,} values to try", "give it a smaller `explore`",
                field_.place,
            )  # fmt: skip
        found |= dict.fromkeys(v for v in t.domain(field_.type, ends or None) if t.in_range(field_.type, v))
    return list(found)


def witnesses(system: System, fields: tuple[Datum, ...]) -> list[tuple[t.Value, ...]]:
    """Every combination of the values that an event's fields may have at any time."""
    domains = [values_to_try(system, f) for f in fields]
    count = 1
    for domain in domains:
        count *= len(domain)
    if count > MOST_WITNESSES:
        raise Unsupported(
            f"an event with the field `{fields[0].name}` has {count:,} combinations of values",
            "give its fields a smaller `explore`", fields[0].place,
        )  # fmt: skip
    return list(product(*domains))


def over(system: System, channel: Channel) -> list[Message]:
    """The kinds of message that go over a channel."""
    ends = (channel.sender, channel.receiver)
    return [m for m in system.messages.values() if (m.sender, m.receiver) == ends]


def numbered(system: System, channel: Channel) -> bool:
    """Whether a mailbox's numbers say more than the order of its messages.

    Where nothing is lost, repeated or overtaken, the ranks of n messages on their way are 1 to n, and the newest has
    the number n.
    """
    return bool(channel.lose or channel.reorder or repeated(system, channel))


def repeated(system: System, channel: Channel) -> bool:
    """Whether a message may be received twice over a mailbox.

    The network may duplicate it; or a duplicate of the request that it answers makes its sender send it again, under
    the number that it had.
    """
    back = [c for c in system.channels.values() if (c.sender, c.receiver) == (channel.receiver, channel.sender)]
    return bool(channel.duplicate or any(c.duplicate for c in back))


def ranges(system: System) -> Iterator[tuple[Role, Datum, tuple[x.Expression, x.Expression]]]:
    """The explored ranges of data: states outside of them are not explored."""
    for role in system.roles.values():
        for datum in role.data.values():
            if datum.explore is not None:
                yield role, datum, datum.explore


def bounded(system: System) -> bool:
    """Whether there are states that are generated and not explored."""
    return system.constraint is not None or any(ranges(system))


def siblings(role: Role, transition: Transition) -> list[Transition]:
    """The other transitions of the same state on the same event."""
    return [other for other in role.states[transition.source].on[transition.event] if other is not transition]


def work_of(role: Role, transition: Transition) -> tuple[str, ...]:
    """The tasks that follow a transition, in their order."""
    if transition.internal:
        return transition.also
    return (*role.states[transition.target].tasks, *transition.also)


def low_high(kind: t.Type) -> tuple[int | None, int | None] | None:
    """The declared bounds of an int, also of one in a map or an option; None where there are none."""
    match kind:
        case t.Int(low=low, high=high) if low is not None or high is not None:
            return low, high
        case t.Map(of=of):
            return low_high(of)
        case t.Option(of=of) if of is not None:
            return low_high(of)
    return None


def sentence(*parts: str) -> str:
    """Words from a specification on one line, none of which ends a comment."""
    words = re.sub(r"\s+", " ", " ".join(p for p in parts if p)).strip()
    return words.replace("*/", "* /").replace("(*", "( *").replace("*)", "* )").encode("ascii", "replace").decode()


def wrapped(words: str, first: str, later: str, last: str = "") -> list[str]:
    """Words as the lines of a comment."""
    return textwrap.wrap(sentence(words) + last, 110, initial_indent=first, subsequent_indent=later)


@dataclass
class Registry:
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


def settings_of(system: System) -> str:
    """The constants as they were set, in words."""
    shown: Mapping[str, str] = {name: t.show(c.type, c.value) for name, c in system.constants.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())
