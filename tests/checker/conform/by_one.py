"""Logs altered by one: each field of each kind of event, one more, one less, one too few, one too many, or another.

An alteration is named by the kind of event, the path of the field, and what is done to it: `step step.record.epoch +1`.
Names that a log makes, such as those of data and neighbours, are `*` in a path. Events themselves are dropped, doubled,
and swapped with the next. Nothing here knows what an event means, so a new field is altered as soon as logs have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import msgspec

from leasehold.impl.events.event import ROOT, AnyEvent, digest, write

NAMED = {"data", "fields", "sent", "received", "since", "records", "constants"}  # mappings by names that a log makes
CHAIN = {"kind", "position", "before", "actor"}  # the chain vouches for these (impl/events/chain.py)
Pool = dict[str, list[Any]]  # by path, the texts that logs have there


class Alteration(NamedTuple):
    """One place of a log, and what is done there.

    Attributes:
        name: of what is done, and to which field of which kind of event.
        actor, at: the event.
        make: gives the events in place of it, and of the next one.
    """

    name: str
    actor: str
    at: int
    make: Callable[[], list[Any]]


def plain(event: AnyEvent) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(event)
    return found


def rewritten(events: list[AnyEvent], first: int) -> list[AnyEvent]:
    """Positions from `first` on, and digests, written anew, as by one who cannot sign."""
    before, found = events[0].before if events and first > 1 else ROOT, list[AnyEvent]()
    for position, event in enumerate(events, first):
        found.append(msgspec.structs.replace(event, position=position, before=before))
        before = digest(write(found[-1]))
    return found


def altered(log: Mapping[str, list[AnyEvent]], one: Alteration) -> dict[str, list[AnyEvent]]:
    events = log[one.actor]
    instead = [msgspec.convert(event, AnyEvent) for event in one.make()]
    return {**log, one.actor: rewritten([*events[: one.at], *instead, *events[one.at + 2 :]], events[0].position)}


def pool_of(logs: list[Mapping[str, list[AnyEvent]]]) -> Pool:
    found: Pool = {}
    for log in logs:
        for event in (event for events in log.values() for event in events):
            for _, words, value in _leaves(plain(event), (), ""):
                if isinstance(value, str) and value not in found.setdefault(words, []):
                    found[words].append(value)
    return found


def alterations(log: Mapping[str, list[AnyEvent]], pool: Pool) -> Iterator[Alteration]:
    """All alterations of a log."""
    for actor, events in log.items():
        for at, event in enumerate(events):
            of, rest = plain(event), [plain(one) for one in events[at + 1 : at + 2]]
            kind = of["kind"]
            yield Alteration(f"{kind} dropped", actor, at, lambda rest=rest: rest)
            yield Alteration(f"{kind} doubled", actor, at, lambda of=of, rest=rest: [of, of, *rest])
            if rest:
                name = f"{kind} swapped with {rest[0]['kind']}"
                yield Alteration(name, actor, at, lambda of=of, rest=rest: [*rest, of])
            for path, words, value in _leaves(of, (), ""):
                for what, other in _others(value, words, pool):

                    def make(path=path, other=other, of=of, rest=rest) -> list[Any]:
                        return [_put(of, path, other), *rest]

                    yield Alteration(f"{kind} {words} {what}", actor, at, make)


def _leaves(value: Any, path: tuple[Any, ...], words: str) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """Yields what can be altered of plain data: every value, mapping and list in it."""
    if path:
        yield path, words, value
    named = bool(path) and (path[-1] in NAMED or (len(path) > 1 and path[-2] == "records"))
    if isinstance(value, dict):
        for name, of in value.items():
            if path or name not in CHAIN:
                yield from _leaves(of, (*path, name), f"{words}.{'*' if named else name}".lstrip("."))
    elif isinstance(value, list):
        for at, of in enumerate(value):
            yield from _leaves(of, (*path, at), words + "[]")


def _others(value: Any, words: str, pool: Pool) -> Iterator[tuple[str, Any]]:
    match value:
        case bool():
            yield "flipped", not value
        case int():
            yield "+1", value + 1
            yield "-1", value - 1
        case float():
            yield "+1", value + 1
            yield "-1", value - 1
        case str():
            others = [one for one in pool.get(words, ()) if one != value]
            yield "another", others[hash_of(value) % len(others)] if others else value + "x"
        case list() if value:
            yield "one dropped", value[1:]
            yield "one doubled", [*value, value[-1]]
            at = next((n for n in range(len(value) - 1) if value[n] != value[n + 1]), None)
            if at is not None:
                yield "two swapped", [*value[:at], value[at + 1], value[at], *value[at + 2 :]]
        case dict() if value:
            yield "one dropped", dict(list(value.items())[1:])


def hash_of(value: str) -> int:
    return sum(value.encode())


def _put(of: dict[str, Any], path: tuple[Any, ...], other: Any) -> dict[str, Any]:
    found = deepcopy(of)
    inner: Any = found
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = other
    return found
