"""Small systems that nobody thought about, whose machines keep sequences, maps, sets and options, and send them."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leasehold.spec import SpecError, System
from tests.checker.explore.by_chance import by_chance
from tests.systems import written


@dataclass(frozen=True)
class ChanceField:
    """A field of records and messages.

    Attributes:
        updates: values that a transition may write; of a received message, `msg.said` is one more.
        conditions: what guards and messages may read.
        claims: properties, of machines a and b.
    """

    type: str
    updates: Sequence[str]
    conditions: Sequence[str]
    claims: Mapping[str, str]


SEQUENCES = {
    "log": ChanceField(
        "'seq[slot, 2]'",
        (
            "take(append(log, slot[0]), 2)",
            "take([slot[1]] + log, 2)",
            "rest(log)",
            "[]",
            "log if bit else [slot[0], slot[1]]",
            "take(log, 1) + [get(last(log), slot[1])]",
        ),
        (
            "slot[1] in log",
            "log[0] == slot[1]",
            "first(log) == slot[0]",
            "starts_with(log, [slot[0]])",
            "log[1] == none",
        ),
        {
            "short": "{always: len(a.log) + len(b.log) < 4}",
            "none_is_first": (
                '{always: "(first(b.log) == none) == (b.log == []) and last(b.log) == b.log[len(b.log) - 1]"}'
            ),
            "never_full": '{when: "len(b.log) == 2", leads_to: "slot[0] in b.log"}',
            "all_alike": ('{sometimes: "all(s == slot[1] for s in a.log) and count(s == slot[1] for s in a.log) > 1"}'),
            "carried": '{always: "all(m.said == [] or first(m.said) != none for m in pending(ask_ab))"}',
        },
    ),
    "counts": ChanceField(
        "{type: 'seq[int, 3]', min: 0, max: 2}",
        ("take(append(counts, 1 if bit else 2), 3)", "rest(counts)", "[get(counts[1], 2)]", "take([1] + counts, 3)"),
        ("len(counts) > 1", "counts == [0] or 2 not in counts", "sum(n for n in counts) > 1"),
        {
            "grows": '{step: "len(a.counts) <= len(old(a.counts)) + 1"}',
            "kept": (
                '{step: "starts_with(a.counts, old(a.counts)) or old(a.counts) != [] '
                'and a.counts == rest(old(a.counts))"}'
            ),
        },
    ),
}
NESTED = {
    "seen": ChanceField(
        "'map[slot, set[slot]]'",
        ("{s: seen[s] | {slot[0]} for s in slot}", "seen | {slot[1]: slot}", "seen if bit else {s: {s} for s in slot}"),
        ("slot[1] in seen[slot[0]]", "seen[slot[0]] <= seen[slot[1]]", "seen == {s: {s} for s in slot}"),
        {
            "seen_holds": '{always: "all(s in a.seen[s] or a.seen[s] == {} for s in slot)"}',
            "seen_grows": '{step: "all(old(b.seen[s]) <= b.seen[s] for s in slot)"}',
        },
    ),
    "near": ChanceField(
        "'map[slot, option[slot]]'",
        ("{s: s for s in slot}", "near | {slot[0]: none}", "near | {slot[1]: slot[0]}", "{s: near[s] for s in slot}"),
        ("near[slot[1]] == slot[0]", "get(near[slot[0]], slot[1]) == slot[1]", "near == {s: none for s in slot}"),
        {
            "near_itself": '{always: "all(get(a.near[s], s) == s for s in slot)"}',
            "near_alike": '{sometimes: "a.near == {s: s for s in slot} and b.near != a.near"}',
        },
    ),
    "grid": ChanceField(
        "'map[side, map[slot, bool]]'",
        (
            "{s: {r: s == left and r == slot[0] for r in slot} for s in side}",
            "grid | {left: {s: true for s in slot}}",
            "grid | {right: grid[right] | {slot[0]: bit}}",
        ),
        ("grid[left][slot[1]]", "grid[left] == grid[right]", "any(grid[s][slot[0]] for s in side)"),
        {"grid_differs": '{always: "a.grid == b.grid or not all(a.grid[s][slot[1]] for s in side)"}'},
    ),
    "some": ChanceField(
        "'option[set[slot]]'",
        ("slot", "none", "{}", "get(some, slot) - {slot[1]}", "some if bit else {slot[0]}"),
        ("some == none", "slot[0] in get(some, {})", "some == slot"),
        {"some_shrinks": '{step: "get(a.some, {}) <= get(old(a.some), slot)"}'},
    ),
    "kept": ChanceField(
        "'option[map[slot, bool]]'",
        ("none", "{s: s == slot[0] for s in slot}", "get(kept, {s: bit for s in slot}) | {slot[1]: true}"),
        ("kept == none", "get(kept, {s: true for s in slot})[slot[1]]"),
        {"kept_first": '{always: "a.kept == none or get(a.kept, {s: false for s in slot})[slot[0]]"}'},
    ),
    "logs": ChanceField(
        "'map[slot, seq[slot, 2]]'",
        (
            "logs | {slot[0]: take([slot[1]] + logs[slot[1]], 2)}",
            "{s: [s] for s in slot}",
            "{s: rest(logs[s]) for s in slot}",
            "logs if bit else {s: [] for s in slot}",
        ),
        ("logs[slot[0]] == [slot[1]]", "len(logs[slot[1]]) > 0", "first(logs[slot[0]]) == last(logs[slot[1]])"),
        {
            "logs_short": '{always: "all(len(a.logs[s]) < 2 for s in slot)"}',
            "logs_own": '{sometimes: "a.logs == {s: [s] for s in slot}"}',
        },
    ),
    "rows": ChanceField(
        "'seq[set[slot], 2]'",
        ("take(append(rows, slot), 2)", "take([{slot[0]}] + rows, 2)", "[]", "rest(rows)", "[get(last(rows), {})]"),
        ("slot in rows", "{} not in rows", "slot[0] in get(first(rows), {})", "any(slot[1] in r for r in rows)"),
        {"rows_filled": '{always: "all(r != {} for r in a.rows)"}'},
    ),
    "cells": ChanceField(
        "'seq[map[slot, option[slot]], 1]'",
        ("[{s: s for s in slot}]", "take(append(cells, {s: none for s in slot}), 1)", "[]", "cells if bit else []"),
        ("cells == [{s: s for s in slot}]", "get(get(cells[0], {s: s for s in slot})[slot[0]], slot[1]) == slot[0]"),
        {"cells_known": '{always: "{s: s for s in slot} in a.cells or len(a.cells) == 0"}'},
    ),
    "text": ChanceField(
        "'option[seq[slot, 2]]'",
        ("none", "[]", "take(append(get(text, []), slot[1]), 2)", "text if bit else [slot[0], slot[1]]"),
        ("text == none", "text == [slot[1]]", "len(get(text, [slot[0]])) == 1"),
        {"text_begins": '{step: "starts_with(get(b.text, []), get(old(b.text), []))"}'},
    ),
    "pages": ChanceField(
        "'seq[seq[slot, 1], 2]'",
        ("take(append(pages, [slot[0]]), 2)", "[[], [slot[1]]]", "rest(pages)", "[take(get(last(pages), []), 1)]"),
        ("[] in pages", "first(pages) == last(pages)", "len(get(pages[1], [slot[1]])) == 1"),
        {"pages_filled": '{always: "all(p != [] for p in b.pages)"}'},
    ),
}
FIXED = "fixed"  # a field that no transition changes
TYPES = "types: {slot: {count: 2}, side: {members: [left, right]}}\nchannels:\n"
TOLD_APART = '  told_apart: {{always: "a.{0} != b.{0} or a.bit == b.bit"}}\n'


def begun(name: str, field: ChanceField, role: str, names: re.Pattern[str], rng: random.Random) -> str:
    """The declaration of a field that may begin as an update writes it; at machine a with `fixed`, of any value."""
    kind = field.type.removeprefix("{").removesuffix("}") if field.type.startswith("{") else f"type: {field.type}"
    constant = [text for text in field.updates if not names.search(text)]
    first = f', initial: "{rng.choice(constant)}"' if constant and rng.random() < 0.5 else ""
    fixed = f", {FIXED}: {{{kind}, initial: any}}" if role == "a" else ""
    return f"{name}: {{{kind}{first}}}{fixed}"


def with_values(
    files: Mapping[str, str], fields: Mapping[str, ChanceField], rng: random.Random, begin: bool
) -> dict[str, str]:
    """The files of a system whose machines have these fields: transitions change them, guards and messages read them.

    The first field is sent, too. With `begin` it may have first values of its own, and one beside it never changes.
    """
    sent = next(iter(fields))
    updates = {name: field.updates for name, field in fields.items()}
    conditions = [text for field in fields.values() for text in field.conditions]
    updates["bit"] = conditions
    kind = fields[sent].type if fields[sent].type.startswith("{") else f"{{type: {fields[sent].type}}}"
    changed_files = dict(files)
    changed_files["system.yaml"] = files["system.yaml"].replace("channels:\n", TYPES)
    changed_files["messages.yaml"] = files["messages.yaml"].replace("{v: bool}", f"{{v: bool, said: {kind}}}")

    def changed(line: str) -> str:
        if "to: s" not in line or rng.random() < 0.3:
            return line
        chosen = rng.sample(list(updates), rng.choice((1, 2, min(3, len(updates)))))
        sets = ", ".join(f'{n}: "{rng.choice(updates[n])}"' for n in chosen)
        if "ask" in line and rng.random() < 0.5:
            sets = f"{sent}: msg.said"
        return line.replace(", set: {bit: not bit}", "").removesuffix("}") + f", set: {{{sets}}}}}"

    data = ", ".join(["bit: bool", *(f"{name}: {field.type}" for name, field in fields.items())])
    names = re.compile(rf"\b({'|'.join(['bit', *fields])})\b")
    for name, text in files.items():
        if name.startswith("roles/"):
            lines = "\n".join(changed(line) for line in text.splitlines()) + "\n"
            role = Path(name).stem
            first = begun(sent, fields[sent], role, names, rng) if begin else ""
            declared = data.replace(f"{sent}: {fields[sent].type}", first) if first else data
            lines = lines.replace("data: {bit: bool}", f"data: {{{declared}}}")
            value = rng.choice(("bit", *conditions))
            changed_files[name] = lines.replace("with: {v: bit}", f'with: {{v: "{value}", said: {sent}}}')
    claims = [f"  {name}: {claim}\n" for field in fields.values() for name, claim in field.claims.items()]
    changed_files["invariants.yaml"] += "".join([*claims, TOLD_APART.format(sent)])
    return changed_files


def values_by_chance(
    folder: Path, rng: random.Random, fields: Mapping[str, ChanceField], begin: bool = False
) -> System | None:
    """A small system of two or three machines that keep such values; None where the loader does not take it."""
    if by_chance(folder, rng) is None:
        return None
    files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.yaml")}
    try:
        return written(folder, with_values(files, fields, rng, begin))
    except SpecError as error:
        if any(d.code not in ("LH402", "LH410", "LH412", "LH415", "LH508") for d in error.diagnostics):
            raise
        return None


def chosen_fields(rng: random.Random) -> Mapping[str, ChanceField]:
    """Two fields of nested values."""
    return {name: NESTED[name] for name in rng.sample(list(NESTED), 2)}
