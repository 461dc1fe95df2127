"""Which keys a specification may hold: one table for the reader, the JSON Schema and the reference page.

A shape says what kind of YAML stands at a place. `check` compares a tree with its shape and reports every difference;
what passes can be read without further care.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from leasehold.spec.language.diagnostics import Place, Sink, listed, near_miss, printable
from leasehold.spec.language.source import INTEGER, MAX_NAME, NAME, RESERVED, Node


@dataclass(frozen=True, slots=True)
class Text:
    """A word or sentence; `of` says what it stands for, and is checked where it is used."""

    of: str = "text"  # text, name, expression, flag, fairness, number, type, channel kind, state set


@dataclass(frozen=True, slots=True)
class Listing:
    of: Shape


@dataclass(frozen=True, slots=True)
class Named:
    """A mapping from names that the user chooses."""

    of: Shape
    keys: str = "name"  # name, or target (`name` or `name[key]`)


@dataclass(frozen=True, slots=True)
class Key:
    shape: Shape
    doc: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    title: str
    keys: Mapping[str, Key]


@dataclass(frozen=True, slots=True)
class OneOf:
    """Alternatives that the kind of YAML (text, list, mapping) tells apart."""

    choices: tuple[Shape, ...] = field(default_factory=tuple)


Shape: TypeAlias = Text | Listing | Named | Record | OneOf

TEXT, NAME_, EXPRESSION, FLAG, NUMBER, TYPE = (
    Text(), Text("name"), Text("expression"), Text("flag"), Text("number"), Text("type"),
)  # fmt: skip
CHOICES = {"flag": ("true", "false"), "fairness": ("true", "false", "strong")}  # all words that such a text may be
NAMES = Listing(NAME_)
NAME_OR_NAMES = OneOf((NAME_, NAMES))
BUDGET = Text("budget")
DOC = Key(TEXT, "What it is, in a sentence.")

DATUM_RECORD = Record(
    "a field",
    {
        "type": Key(
            TYPE, "int, bool, time, opaque, a type's or role's name, set[...], map[..., ...], option[...].", True
        ),
        "min": Key(EXPRESSION, "Smallest legal value (int)."),
        "max": Key(EXPRESSION, "Largest legal value (int)."),
        "explore": Key(Listing(EXPRESSION), "What the explorer tries: [low, high], both included; may read `now`."),
        "initial": Key(EXPRESSION, "The first value, or `any`: every value is tried."),
        "doc": DOC,
    },
)
DATUM = OneOf((TYPE, DATUM_RECORD))
DATA = Named(DATUM)

TRANSITION = Record(
    "a transition",
    {
        "to": Key(NAME_, "The next state; entering it starts its tasks, also when it is the same state."),
        "stay": Key(FLAG, "true: an internal transition; the state is not entered again and no task of it starts."),
        "when": Key(EXPRESSION, "The guard; transitions of one state on one event have disjoint guards."),
        "set": Key(Named(EXPRESSION, "target"), "Updates of the record, all computed from the record before."),
        "also": Key(NAME_OR_NAMES, "Tasks of this transition alone; recovery does not restart them."),
        "doc": DOC,
    },
)
TRANSITIONS = OneOf((TRANSITION, Listing(TRANSITION)))
REASONS = Named(TEXT)
STATE = Record(
    "a state",
    {
        "doc": DOC,
        "initial": Key(FLAG, "true for the one state in which the machine starts."),
        "tasks": Key(NAME_OR_NAMES, "W(x): what is started when the state is entered, in this order."),
        "on": Key(Named(TRANSITIONS), "Transitions by event: a message, a local event, or `tick`."),
        "ignore": Key(REASONS, "Events that change nothing here, each with its reason."),
        "refuse": Key(REASONS, "Events that are answered with an error here, each with its reason."),
    },
)
GROUP = Record(
    "a group of pairs",
    {
        "events": Key(NAME_OR_NAMES, "The events.", True),
        "in": Key(NAME_OR_NAMES, "The states.", True),
        "because": Key(TEXT, "The reason.", True),
    },
)
EVENT = Record("an event", {"fields": Key(DATA, "What the event carries."), "doc": DOC})
TASK = Record(
    "a task",
    {
        "send": Key(NAME_, "Sends this message (with `to` and `with`)."),
        "to": Key(NAME_, "The role that receives it."),
        "call": Key(Text("dotted name"), "Calls a policy or handler, such as `policy.allocate`."),
        "drive": Key(NAME_, "Hands an event to machines of this subsidiary role (with `event` and `answers`)."),
        "event": Key(NAME_, "The event that is driven."),
        "with": Key(Named(EXPRESSION), "Fields of the message or event, read from the record."),
        "only": Key(EXPRESSION, "Which machines (`it`) receive it; all, when left out."),
        "when": Key(EXPRESSION, "The task is part of W(x) only while this holds of the record."),
        "answers": Key(
            OneOf((NAMES, Named(EXPRESSION))),
            "Local events with which the task may end; of a driven task, each with its condition.",
        ),
        "outlives": Key(FLAG, "true: the call goes on when its state is left, and later states remember it."),
        "doc": DOC,
    },
)
ROLE = Record(
    "a role",
    {
        "role": Key(NAME_, "The role's name, the same as the file's.", True),
        "doc": DOC,
        "subsidiary": Key(NAME_, "The role whose machine drives this one and shares its store."),
        "data": Key(DATA, "The record: what is committed with every transition, beside the state."),
        "events": Key(Named(OneOf((TEXT, EVENT))), "Local events: answers of tasks, and words from outside."),
        "states": Key(Named(STATE), "The machine, state by state.", True),
        "tasks": Key(Named(TASK), "What states start on entry."),
        "ignore": Key(Listing(GROUP), "Groups of (state, event) pairs that change nothing."),
        "refuse": Key(Listing(GROUP), "Groups of (state, event) pairs that are answered with an error."),
    },
)
MESSAGE = Record(
    "a message",
    {
        "from": Key(NAME_, "The role that sends it.", True),
        "to": Key(NAME_, "The role that receives it.", True),
        "fields": Key(DATA, "What it carries."),
        "carries": Key(NAME_, "A message to its sender whose content it shows, signed: equal fields are equal values."),
        "answer": Key(FLAG, "true: it answers its receiver, so receiving it twice does not send anything again."),
        "doc": DOC,
    },
)
MESSAGES = Record("messages", {"messages": Key(Named(MESSAGE), "Every message, by name.", True)})
CHANNEL = Record(
    "a channel",
    {
        "from": Key(NAME_, "The sending role.", True),
        "to": Key(NAME_, "The receiving role.", True),
        "kind": Key(Text("channel kind"), "mailbox, fifo, fifo(n), bag, bag(n) or set.", True),
        "pairs": Key(
            Text("pairs"), "every: each machine talks to each (the default); same: only machines of equal index talk."
        ),
        "lose": Key(BUDGET, "How many messages may be lost, or `any`."),
        "duplicate": Key(BUDGET, "How many messages may be received twice, or `any`."),
        "reorder": Key(BUDGET, "How many messages may be received out of turn, or `any`."),
        "doc": DOC,
    },
)
CONSTANT = Record(
    "a constant",
    {
        "type": Key(TYPE, "int, bool or a type's name.", True),
        "value": Key(TEXT, "Its value where the call sets none.", True),
        "min": Key(NUMBER, "Smallest value that may be set."),
        "max": Key(NUMBER, "Largest value that may be set."),
        "doc": DOC,
    },
)
TYPE_RECORD = Record(
    "a type",
    {
        "members": Key(NAMES, "An enumeration's members."),
        "count": Key(EXPRESSION, "A number of interchangeable members."),
        "doc": DOC,
    },
)
ROLE_USE = Record(
    "a role of the system",
    {
        "instances": Key(EXPRESSION, "How many machines; with this key they are named by index."),
        "file": Key(TEXT, "The role's file, relative to the system's folder; roles/NAME.yaml when left out."),
    },
)
OUTSIDE = Record(
    "an environment action",
    {
        "to": Key(NAME_, "The role whose machines (`it`) are offered the event.", True),
        "event": Key(NAME_, "The event; the action's own name when left out."),
        "when": Key(EXPRESSION, "When it may come; may read everything, and `event.` fields."),
        "fair": Key(
            Text("fairness"),
            "true: it comes in the end, if it may come all the time (for `leads_to`); strong: if again and again.",
        ),
        "doc": DOC,
    },
)
CLOCK = Record(
    "the clock",
    {
        "horizon": Key(EXPRESSION, "The last tick that is explored.", True),
        "timers": Key(
            Text("timers"), "prompt: the clock waits for machines whose tick is due; late: it may go on without them."
        ),
    },
)
FAULTS = Record(
    "the faults",
    {
        "budget": Key(TEXT, "What `crash` explores when the call says nothing, such as `crash=2,duplicate=1`."),
        "set": Key(Named(TEXT), "Values of constants with which it does so; a call may set others."),
        "modes": Key(Named(EXPRESSION), "Cases of recovery that are told apart: what holds when an actor restarts."),
        "nodes": Key(Named(NAMES), "Actors that share a node: they may crash together."),
        "check": Key(TEXT, "What `check` explores besides, such as `crash=1`."),
    },
)
SYSTEM = Record(
    "a system",
    {
        "system": Key(NAME_, "The system's name.", True),
        "doc": DOC,
        "include": Key(OneOf((TEXT, Listing(TEXT))), "Other files, relative to this one, that are read as well."),
        "constants": Key(Named(CONSTANT), "What `--set NAME=VALUE` may set."),
        "types": Key(Named(TYPE_RECORD), "Enumerations and counted types."),
        "roles": Key(Named(ROLE_USE), "The roles that take part.", True),
        "channels": Key(Named(CHANNEL), "One for every pair of roles of which one sends to the other."),
        "actors": Key(Named(NAMES), "Servers and the roles that they play; machines of one actor crash together."),
        "clock": Key(CLOCK, "The virtual clock; a system without one has no time."),
        "environment": Key(Named(OUTSIDE), "When the world outside offers events."),
        "faults": Key(FAULTS, "What may go wrong, and how it is explored."),
        "initially": Key(EXPRESSION, "Which combinations of initial values are meant."),
        "constraint": Key(EXPRESSION, "States where this fails are not explored further."),
        "product": Key(NAMES, "The roles whose control states make the product; all but subsidiaries when left out."),
    },
)
PROPERTY = Record(
    "a property",
    {
        "always": Key(EXPRESSION, "Holds in every state."),
        "step": Key(EXPRESSION, "Holds of every step: `old(...)` is before it, `took(role.event)` asks what it was."),
        "sometimes": Key(EXPRESSION, "Some reachable state shows it."),
        "leads_to": Key(EXPRESSION, "Whenever `when` holds, this comes in the end, under fairness."),
        "always_possible": Key(
            EXPRESSION, "From every state (where `when` holds) some run leads to one where this holds."
        ),
        "within": Key(EXPRESSION, "For leads_to: before the clock has ticked this often."),
        "when": Key(EXPRESSION, "The antecedent: the cases of which the claim speaks."),
        "source": Key(TEXT, "Where it comes from."),
        "doc": DOC,
    },
)
INVARIANTS = Record(
    "properties",
    {
        "properties": Key(Named(PROPERTY), "Every property, by name."),
        "ends": Key(Named(EXPRESSION), "Deadlock freedom: the states of the whole in which nothing more need happen."),
    },
)
EXPECTATION = Record(
    "an expectation",
    {
        "set": Key(Named(TEXT), "Values of constants; the declared ones when left out."),
        "distinct": Key(NUMBER, "Distinct states."),
        "generated": Key(NUMBER, "Generated states, as TLC counts them."),
        "edges": Key(NUMBER, "Steps between states that are within the bounds."),
        "depth": Key(NUMBER, "Steps to the farthest state."),
        "initial": Key(NUMBER, "Initial states."),
        "product": Key(NUMBER, "Cells of the product."),
        "reachable": Key(NUMBER, "Cells that are reached."),
        "violated": Key(Named(TEXT), "Properties that must be violated, each with the reason; all others must hold."),
        "unvisited": Key(
            Named(TEXT, "anything"),
            "Transitions that are never taken, each with the reason; `*` stands for any letters.",
        ),
        "vacuous": Key(Named(TEXT), "Properties whose antecedent never holds, each with the reason."),
        "slow": Key(FLAG, "true: takes more than about ten seconds."),
        "doc": DOC,
    },
)
EXPECTED = Record(
    "expectations",
    {
        "runs": Key(Named(EXPECTATION), "What must be found, by setting.", True),
        "unvisited": Key(
            Named(TEXT, "anything"), "Transitions that are not taken in some of the runs, each with the reason."
        ),
        "vacuous": Key(
            Named(TEXT), "Properties whose antecedent does not hold in some of the runs, each with the reason."
        ),
    },
)

TRIAL = Record(
    "a trial",
    {
        "set": Key(Named(TEXT), "Values of constants; the declared ones when left out."),
        "faults": Key(TEXT, "A budget of faults, such as `crash=1,duplicate=1`; no faults when left out."),
        "doc": DOC,
    },
)
MUTATION = Record(
    "a mutation campaign",
    {
        "battery": Key(Listing(TRIAL), "In what each mutant is tried until it is killed, the cheapest first.", True),
        "explained": Key(
            Named(TEXT, "anything"),
            "Mutants that survive, each with the reason why no property finds it; `*` stands for any letters.",
        ),
    },
)

CRASH = Record(
    "crash points that are not met",
    {
        "unmet": Key(
            Named(TEXT, "anything"),
            "Crash points at which nothing stops under the faults of `check`, each with the reason; `*` stands for any "
            "letters. None is needed where the machine never comes to the state, or has no crash left for the point.",
            True,
        ),
    },
)

MIGRATED_FIELD = Record(
    "the rule of a field",
    {
        "from": Key(NAME_, "The old field that it takes its value from."),
        "value": Key(EXPRESSION, "Its value in every record that is migrated; of a map, every cell's."),
        "initial": Key(FLAG, "true: it begins as in a new record."),
        "cells": Key(EXPRESSION, "Of a map that has more cells than the old one: the value of the new ones."),
    },
)
MIGRATED_ROLE = Record(
    "the rules of a role",
    {
        "was": Key(NAME_, "The role's name before, where it was another one."),
        "states": Key(Named(NAME_), "Old states that have another name now, as `old: new`."),
        "fields": Key(Named(MIGRATED_FIELD), "Where the values of fields come from that the old role did not have."),
        "drop": Key(NAME_OR_NAMES, "Old fields whose values are given up."),
        "forget": Key(NAME_OR_NAMES, "Old states in which machines above the new number of instances are given up."),
    },
)
MIGRATION = Record(
    "a migration",
    {
        "from": Key(Text("digest"), "The old specification's digest, or its first 12 digits or more.", True),
        "roles": Key(Named(MIGRATED_ROLE), "What has changed, by the role's name in this specification."),
        "doc": DOC,
    },
)
MIGRATIONS = Record(
    "migrations",
    {"migrations": Key(Listing(MIGRATION), "From each older specification straight to this one.", True)},
)

LEMMA = Record(
    "a lemma",
    {
        "always": Key(EXPRESSION, "Holds in every state.", True),
        "when": Key(EXPRESSION, "The antecedent: the cases of which the claim speaks."),
        "doc": DOC,
    },
)
LEMMAS = Record(
    "lemmas.yaml",
    {"lemmas": Key(Named(LEMMA), "What the prover needs to know besides the properties, and proves with them.", True)},
)

# An included file that holds part of system.yaml: nothing is required of it.
PART = Record("part of a system", {name: Key(key.shape, key.doc) for name, key in SYSTEM.keys.items()})

FILES: Mapping[str, Record] = {
    "system": SYSTEM, "messages": MESSAGES, "role": ROLE, "invariants": INVARIANTS, "expected": EXPECTED,
    "mutation": MUTATION, "crash": CRASH, "migrations": MIGRATIONS,
    "lemmas": LEMMAS,
}  # fmt: skip


def check(node: Node, shape: Shape, sink: Sink, where: str = "the file") -> bool:
    """Compares a tree with its shape, all the way down; True when nothing was reported."""
    before = len(sink.found)
    _check(node, shape, sink, where)
    return len(sink.found) == before


def _kind(shape: Shape) -> str:
    match shape:
        case Text():
            return "text"
        case Listing():
            return "list"
        case _:
            return "mapping"


def _wanted(shape: Shape) -> str:
    match shape:
        case Text(of=of):
            return {"text": "a text", "expression": "an expression", "name": "a name"}.get(of, f"a {of}")
        case Listing(of=of):
            return f"a list ({_wanted(of)} each)"
        case Record(title=title):
            return f"{title} (a mapping)"
        case Named():
            return "a mapping by name"
        case OneOf(choices=choices):
            return " or ".join(_wanted(c) for c in choices)


def _remedy(shape: Shape) -> str:
    match shape:
        case Text():
            return "write it on one line; quote it if it has brackets, colons or hashes in it"
        case Listing():
            return "write `[one, two]`, or a line `- one` for each"
        case Record(keys=keys):
            return f"its keys: {listed(keys, 30)}"
        case Named():
            return "write a line `NAME: ...` for each"
        case OneOf(choices=choices):
            return _remedy(choices[-1])


def _check(node: Node, shape: Shape, sink: Sink, where: str) -> None:
    if isinstance(shape, OneOf):
        fitting = [c for c in shape.choices if _kind(c) == node.kind]
        if fitting:
            _check(node, fitting[0], sink, where)
            return
    if isinstance(shape, OneOf) or _kind(shape) != node.kind:
        empty = node.kind == "text" and not node.text
        found = "nothing" if empty else {"text": f"`{node.text[:40]}`", "list": "a list"}.get(node.kind, "a mapping")
        sink.error("LH203", node.place, f"{where}: {_wanted(shape)} is wanted here, not {found}", remedy=_remedy(shape))
        return
    match shape:
        case Text(of=of):
            _check_text(node, of, sink, where)
        case Listing(of=of):
            for item in node:
                _check(item, of, sink, where)
        case Named(of=of, keys=keys):
            for name, place, value in node.pairs():
                if keys == "name":
                    _check_name(name, place, sink, where)
                _check(value, of, sink, f"{where}.{name[:40]}")
        case Record():
            _check_record(node, shape, sink, where)


def _check_name(name: str, place: Place, sink: Sink, where: str) -> None:
    if name in RESERVED:
        sink.error("LH205", place, f"{where}: `{name}` is a word of the language", remedy=f"write `{name}_`, or so")
    elif not NAME.match(name):
        long = NAME.match(name[:MAX_NAME]) is not None and len(name) > MAX_NAME
        foreign = next((c for c in name[:MAX_NAME] if not " " <= c <= "~"), None)
        why = f": it has {len(name):,} characters" if long else ""
        if foreign is not None:
            why = f": it has {unicodedata.name(foreign, 'a control character')} (U+{ord(foreign):04X}) in it"
        fixed = re.sub(r"[^a-z0-9_]+", "_", name[:MAX_NAME].lower()).strip("_")
        sink.error(
            "LH205", place, f"{where}: {printable(name[:40])} is not a name{why}",
            near=f"`{fixed}`" if name.isascii() and NAME.match(fixed) and not long else None,
            remedy="a name has letters from a to z, digits and underscores, begins with a letter, and has at most "
            f"{MAX_NAME} characters",
        )  # fmt: skip


def _check_text(node: Node, of: str, sink: Sink, where: str) -> None:
    if of in CHOICES and node.text not in CHOICES[of]:
        *others, last = (f"`{word}`" for word in CHOICES[of])
        sink.error(
            "LH203", node.place, f"{where}: {', '.join(others)} or {last} is wanted here, not `{node.text[:40]}`",
            near=near_miss(node.text, CHOICES[of]), remedy="write `true`, or leave the key out",
        )  # fmt: skip
    elif of == "number" and not INTEGER.match(node.text):
        sink.error(
            "LH203", node.place, f"{where}: a number is wanted here, not `{node.text[:40]}`",
            remedy="write digits, at most 18 of them",
        )  # fmt: skip
    elif of == "name":
        _check_name(node.text, node.place, sink, where)
    elif of in ("expression", "type") and not node.text.strip():
        sink.error(
            "LH203", node.place, f"{where}: {'an' if of == 'expression' else 'a'} {of} is wanted here",
            remedy="write one, or leave the key out",
        )  # fmt: skip


def _check_record(node: Node, shape: Record, sink: Sink, where: str) -> None:
    prefix = "" if where == "the file" else f"{where}: "
    meant = set()
    for name, place, value in node.pairs():
        key = shape.keys.get(name)
        if key is None and " " in name and value.kind == "text" and not value.text:
            sink.error(
                "LH201", place, f"{where}: `{name[:40]}` is read as a key of {shape.title}",
                remedy="inside braces a comma ends a text: put quotes around the text that holds it",
            )  # fmt: skip
        elif key is None:
            near = near_miss(name, shape.keys)
            meant.add(near)
            sink.error(
                "LH201", place, f"{prefix}{printable(name[:40])} is not a key of {shape.title}", near=near,
                remedy=f"its keys: {listed(shape.keys, 30)}",
            )  # fmt: skip
        else:
            _check(value, key.shape, sink, f"{where}.{name}" if where != "the file" else name)
    for name, key in shape.keys.items():
        if key.required and node.get(name) is None and f"`{name}`" not in meant:
            sink.error(
                "LH202", node.place, f"{prefix}the key `{name}` of {shape.title} is missing",
                remedy=f"write `{name}: ...`. {key.doc}",
            )  # fmt: skip
