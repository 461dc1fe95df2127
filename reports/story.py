"""The story of a lease as lines for people: when, who, and what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from leasehold.checker.explain.story import StoryEntry
from leasehold.impl.words import counted

BEGINNING, END = 6, 30  # lines that a short story has at most
LONGEST = 60  # characters of a value

# How an event came to a machine, by the cause that its step names.
_CAUSES: Mapping[str, str] = {
    "timer": "its timer was due",
    "policy": "{event}, as its policy decided",
    "handler": "{event}, as its handler said",
    "probe": "{event}, as a probe found",
    "client": "{event}, as a client said",
    "subsidiary": "{event}, as its subsidiary machines have come there",
    "parent": "{event}, as its parent drives it",
}


def story_lines(story: Sequence[StoryEntry], whole: bool = False) -> list[str]:
    """A line for each entry that matters; neighbouring ones of machines that do the same are one line.

    Args:
        story: in its order.
        whole: every line, also those of entries that change nothing; else at most BEGINNING and END of them.
    """
    entries = [entry for entry in story if whole or entry.matters]
    days = {_day(entry) for entry in entries}
    rows = [_row(list(alike), len(days) > 1) for _, alike in groupby(entries, key=_alike)]
    widths = [max((len(row[n]) for row in rows), default=0) for n in range(3)]
    lines = [
        "  ".join(
            word for word in (f"{tick:>{widths[0]}}", f"{when:{widths[1]}}", f"{event:{widths[2]}}", text) if word
        )
        for tick, when, event, text in rows
    ]
    left = len(lines) - BEGINNING - END
    if whole or left <= 1:
        return lines
    return [*lines[:BEGINNING], f"... {counted(left, 'line')} more; --all prints them", *lines[-END:]]


def _alike(entry: StoryEntry) -> tuple[Any, ...]:
    """Returns what neighbouring entries have in common that are told in one line."""
    role, numbered, _ = entry.machine.partition("[")
    which = role if numbered and not entry.number else entry.machine
    return entry.actor, entry.kind, entry.now, which, what_happened(entry, which)


def _row(alike: list[StoryEntry], dated: bool) -> tuple[str, str, str, str]:
    first = alike[0]
    when = _time(first.time, dated)
    positions = list(dict.fromkeys(entry.position for entry in alike))
    to = f"-{positions[-1]}" if len(positions) > 1 else ""
    event = f"{first.actor}:{positions[0]}{to}"
    machines = ", ".join(dict.fromkeys(entry.machine for entry in alike))
    return f"tick {first.now}", when, event, what_happened(first, machines)


def _day(entry: StoryEntry) -> str:
    return _time(entry.time, dated=True).partition(" ")[0]


def _time(seconds: float, dated: bool) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S" if dated else "%H:%M:%S")


def what_happened(entry: StoryEntry, machines: str) -> str:
    """One entry in words: `broker nascent -> ticketing: ticket of service_manager {units: 2}; asks policy.allocate`."""
    match entry.kind:
        case "recovered":
            return f"the actor starts, as its incarnation {entry.number}"
        case "migrated":
            return f"records are mapped {entry.words}"
        case "found":
            return f"{machines} is {entry.state}; its steps before are not here"
        case "forgotten":
            return f"{machines} is forgotten, as {entry.state}"
        case "refused":
            whose = f" of a {entry.cause}" if entry.cause else ""
            return f"{machines} refuses {entry.event}{whose}{_fields(entry.fields)}: {entry.reason}"
    moved = entry.source if entry.source == entry.state else f"{entry.source} -> {entry.state}"
    parts = [f"{machines} {moved}: {how_it_came(entry)}"]
    parts += [f"says {sent}" for sent in entry.sends]
    parts += [f"{'asks' if call.startswith('policy.') else 'calls'} {call}" for call in entry.starts]
    return "; ".join(parts)


def how_it_came(entry: StoryEntry) -> str:
    """Returns what a step has consumed, and where that came from."""
    if entry.sender:
        text = f"{entry.event} of {entry.sender}"
    elif entry.cause == "handler" and not entry.well:
        text = f"{entry.event}, as its handler has failed"
    else:
        text = _CAUSES.get(entry.cause, "{event}").format(event=entry.event)
    text += _fields(entry.fields)
    if entry.words:
        text += f" ({entry.words})"
    return text if entry.transition else f"{text}, not taken: {entry.reason}"


def _fields(fields: Mapping[str, Any]) -> str:
    """` {units: 2, end: 40}`: the fields that say something; of what no machine reads only plain words do."""
    shown = [f"{name}: {_short(value)}" for name, value in fields.items() if _says(value)]
    return f" {{{', '.join(shown)}}}" if shown else ""


def _says(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and not any(isinstance(one, dict | list) for one in value)
    return value == 0 or (bool(value) and not isinstance(value, dict))  # 0 is a number, a member, or false


def _short(value: Any) -> str:
    text = "[" + ", ".join(map(_short, value)) + "]" if isinstance(value, list) else str(value)
    text = text.lower() if isinstance(value, bool) else text
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
