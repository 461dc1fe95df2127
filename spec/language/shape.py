"""The keys of a specification: one table for the reader, the JSON Schema and the reference page.

A shape describes the YAML at a place. `check` compares a tree with its shape and reports every difference; a tree that
passes needs no further checks of its form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


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
DOC = Key(TEXT, "A description, in a sentence.")

DATUM_RECORD = Record(
    "a field",
    {
        "type": Key(
            TYPE, "int, bool, time, opaque, a type's or role's name, set[...], map[..., ...], option[...].", True
        ),
        "min": Key(EXPRESSION, "Smallest legal value (int)."),
        "max": Key(EXPRESSION, "Largest legal value (int)."),
        "explore": Key(
            Listing(EXPRESSION), "The range that the explorer tries: [low, high], both included; may read `now`."
        ),
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
        "tasks": Key(NAME_OR_NAMES, "W(x): the tasks that start when the state is entered, in this order."),
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
EVENT = Record("an event", {"fields": Key(DATA, "The data of the event."), "doc": DOC})
TASK = Record(
    "a task",
    {
        "send": Key(NAME_, "Sends this message (with `to` and `with`)."),
        "to": Key(NAME_, "The role that receives it."),
        "call": Key(Text("dotted name"), "Calls a policy or handler, such as `policy.allocate`."),
        "drive": Key(NAME_, "Hands an event to machines of this subsidiary role (with `event` and `answers`)."),
        "event": Key(NAME_, "The event that is driven."),
        "with": Key(Named(EXPRESSION), "Fields of the message or event, read from the record."),
        "only": Key(EXPRESSION, "The machines (`it`) that receive it; by default all."),
        "when": Key(EXPRESSION, "The task is part of W(x) only while this condition on the record holds."),
        "answers": Key(
            OneOf((NAMES, Named(EXPRESSION))),
            "Local events with which the task may end; a driven task has a condition for each.",
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
        "data": Key(DATA, "The record: the data that every transition commits together with the state."),
        "events": Key(Named(OneOf((TEXT, EVENT))), "Local events: answers of tasks, and events from outside."),
        "states": Key(Named(STATE), "The machine, state by state.", True),
        "tasks": Key(Named(TASK), "The tasks that states start on entry."),
        "ignore": Key(Listing(GROUP), "Groups of (state, event) pairs that change nothing."),
        "refuse": Key(Listing(GROUP), "Groups of (state, event) pairs that are answered with an error."),
    },
)
MESSAGE = Record(
    "a message",
    {
        "from": Key(NAME_, "The role that sends it.", True),
        "to": Key(NAME_, "The role that receives it.", True),
        "fields": Key(DATA, "Its data."),
        "carries": Key(
            NAME_, "A signed message that its sender received and that it contains: equal fields have equal values."
        ),
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
        "lose": Key(BUDGET, "The number of messages that may be lost, or `any`."),
        "duplicate": Key(BUDGET, "The number of messages that may be received twice, or `any`."),
        "reorder": Key(BUDGET, "The number of messages that may be received out of order, or `any`."),
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
        "instances": Key(EXPRESSION, "The number of machines; with this key their names have an index."),
        "file": Key(TEXT, "The role's file, relative to the system's folder; by default roles/NAME.yaml."),
    },
)
OUTSIDE = Record(
    "an environment action",
    {
        "to": Key(NAME_, "The role whose machines (`it`) are offered the event.", True),
        "event": Key(NAME_, "The event; by default the action's own name."),
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
        "budget": Key(TEXT, "The default budget of `crash`, such as `crash=2,duplicate=1`."),
        "set": Key(Named(TEXT), "Values of constants under faults; a call may set others."),
        "modes": Key(
            Named(EXPRESSION), "Cases of recovery to distinguish: conditions on the state in which an actor restarts."
        ),
        "nodes": Key(Named(NAMES), "Actors that share a node: they may crash together."),
        "check": Key(TEXT, "The faults that `check` explores too, such as `crash=1`."),
    },
)
SYSTEM = Record(
    "a system",
    {
        "system": Key(NAME_, "The system's name.", True),
        "doc": DOC,
        "include": Key(OneOf((TEXT, Listing(TEXT))), "Other files, relative to this one, that are read as well."),
        "constants": Key(Named(CONSTANT), "The constants; `--set NAME=VALUE` sets one."),
        "types": Key(Named(TYPE_RECORD), "Enumerations and counted types."),
        "roles": Key(Named(ROLE_USE), "The roles that take part.", True),
        "channels": Key(Named(CHANNEL), "One for every pair of roles of which one sends to the other."),
        "actors": Key(Named(NAMES), "Servers and the roles that they play; machines of one actor crash together."),
        "clock": Key(CLOCK, "The virtual clock; a system without one has no time."),
        "environment": Key(Named(OUTSIDE), "The conditions under which the environment offers events."),
        "faults": Key(FAULTS, "The faults that are explored, and how."),
        "initially": Key(EXPRESSION, "The condition that selects combinations of initial values."),
        "constraint": Key(EXPRESSION, "States where this fails are not explored further."),
        "product": Key(NAMES, "The roles whose control states make the product; by default all but subsidiaries."),
    },
)
PROPERTY = Record(
    "a property",
    {
        "always": Key(EXPRESSION, "Holds in every state."),
        "step": Key(
            EXPRESSION, "Holds for every step: `old(...)` is the value before it, `took(role.event)` tests its event."
        ),
        "sometimes": Key(EXPRESSION, "Holds in some reachable state."),
        "leads_to": Key(EXPRESSION, "Whenever `when` holds, this holds then or later, under fairness."),
        "always_possible": Key(
            EXPRESSION, "From every state (where `when` holds) some run leads to one where this holds."
        ),
        "within": Key(EXPRESSION, "For leads_to: before the clock has ticked this often."),
        "when": Key(EXPRESSION, "The antecedent: the claim is restricted to these cases."),
        "source": Key(TEXT, "Its source, such as a section of a paper."),
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
        "set": Key(Named(TEXT), "Values of constants; by default the declared ones."),
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
        "runs": Key(Named(EXPECTATION), "The expected results, by setting.", True),
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
        "set": Key(Named(TEXT), "Values of constants; by default the declared ones."),
        "faults": Key(TEXT, "A budget of faults, such as `crash=1,duplicate=1`; by default no faults."),
        "doc": DOC,
    },
)
MUTATION = Record(
    "a mutation campaign",
    {
        "battery": Key(
            Listing(TRIAL), "The settings in which each mutant is tried until it is killed, the cheapest first.", True
        ),
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
        "cells": Key(EXPRESSION, "The value of new cells, for a map that has more cells than the old one."),
    },
)
MIGRATED_ROLE = Record(
    "the rules of a role",
    {
        "was": Key(NAME_, "The role's name before, where it was another one."),
        "states": Key(Named(NAME_), "Old states that have another name now, as `old: new`."),
        "fields": Key(Named(MIGRATED_FIELD), "Rules for fields that the old role did not have."),
        "drop": Key(NAME_OR_NAMES, "Old fields whose values are dropped."),
        "forget": Key(NAME_OR_NAMES, "Old states in which machines above the new number of instances are dropped."),
    },
)
MIGRATION = Record(
    "a migration",
    {
        "from": Key(Text("digest"), "The old specification's digest, or its first 12 digits or more.", True),
        "roles": Key(Named(MIGRATED_ROLE), "The changes, by the role's name in this specification."),
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
        "when": Key(EXPRESSION, "The antecedent: the claim is restricted to these cases."),
        "doc": DOC,
    },
)
LEMMAS = Record(
    "lemmas.yaml",
    {"lemmas": Key(Named(LEMMA), "Facts that the prover needs besides the properties, and proves with them.", True)},
)

# An included file that holds part of system.yaml: nothing is required of it.
PART = Record("part of a system", {name: Key(key.shape, key.doc) for name, key in SYSTEM.keys.items()})

FILES: Mapping[str, Record] = {
    "system": SYSTEM, "messages": MESSAGES, "role": ROLE, "invariants": INVARIANTS, "expected": EXPECTED,
    "mutation": MUTATION, "crash": CRASH, "migrations": MIGRATIONS,
    "lemmas": LEMMAS,
}  # fmt: skip
