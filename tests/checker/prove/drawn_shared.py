"""Shared variables of systems by chance (drawn_system.py): what is declared, written, read and claimed of them.

They are drawn by a source of their own, so that a system without them is what it would be anyway. Some are written by
machines of one role alone, a cell by each; some are never written, so that what holds of them at first is inductive.
"""

from __future__ import annotations

from random import Random

from tests.checker.prove.drawn_terms import Terms

DATA: dict[str, tuple[str, tuple[str, ...]]] = {  # name: its type, as `Terms` has it, and how it may be declared
    "mark": ("bool", ("bool", "{type: bool, initial: true}", "{type: bool, initial: any}")),
    "level": (
        "int",
        ("{type: int, min: 0, max: cap}", "{type: int, explore: [0, 2]}", "{type: int, min: 0, max: 2, initial: any}"),
    ),
    "tint": ("colour", ("colour", "{type: colour, initial: green}", "{type: colour, initial: any}")),
    "hint": ("option", ('"option[colour]"', '{type: "option[colour]", initial: any}')),
    "pool": ("set slot", ('"set[slot]"', '{type: "set[slot]", initial: slot}')),
    "spot": ("slot", ("slot", "{type: slot, initial: any}")),
    "cells": ("", ('"map[slot, bool]"', '{type: "map[slot, bool]", initial: true}')),
    "held": ("", ('"map[b, bool]"',)),
}
SHARE = 0.25  # of the systems


class SharedWriter:
    """Draws the shared variables of one system; it has none where `data` is empty.

    Args:
        rng: for this alone.
        indexed: machines of b have an index, so that a variable may have a cell for each.
        share: how likely it has any.
    """

    def __init__(self, rng: Random, indexed: bool, share: float = SHARE) -> None:
        self.rng = rng
        names = [name for name in DATA if indexed or name != "held"]
        chosen = sorted(rng.sample(names, rng.choice((1, 2, 3)))) if rng.random() < share else []
        self.data = {name: rng.choice(DATA[name][1]) for name in chosen}
        self.kept = {("shared", name) for name, of in self.data.items() if "any" in of and rng.random() < 0.4}

    @property
    def lines(self) -> list[str]:
        """Of system.yaml."""
        return ["shared:", *(f"  {name}: {of}" for name, of in self.data.items())] if self.data else []

    def read(self, role: str = "", old: bool = False) -> dict[str, list[str]]:
        """Returns what may be read of them, by type; of a machine of a role, or by anybody."""
        found: dict[str, list[str]] = {}
        mine = "self" if role == "b" else "b[0]"
        for name in self.data:
            kind = DATA[name][0] or "bool"
            text = {"cells": "shared.cells[slot[0]]", "held": f"shared.held[{mine}]"}.get(name, f"shared.{name}")
            found.setdefault(kind, []).extend([text, f"old({text})"] if old else [text])
            found.setdefault(kind.removeprefix("set "), [])
        return found

    def with_own(self, own: dict[str, list[str]], role: str = "", old: bool = False) -> dict[str, list[str]]:
        """Returns what may be read by type, with shared variables."""
        more = self.read(role, old)
        return {of: [*own.get(of, []), *more.get(of, [])] for of in (*own, *(m for m in more if m not in own))}

    def change(self, role: str, read: dict[str, list[str]]) -> list[str]:
        """Updates of a transition, whose machine and event have this to read."""
        parts = []
        for name, declared in self.data.items():
            if ("shared", name) in self.kept or self.rng.random() < 0.55 or (name == "held" and role != "b"):
                continue
            kind = DATA[name][0] or "bool"
            value = Terms(self.rng, self.with_own(read, role)).of(kind, self.rng.choice((0, 1, 2)))
            if kind == "int":
                value = f"max(0, min({'cap' if 'cap' in declared else '1'}, {value}))"
            target = {"cells": f"cells[slot[{self.rng.choice('01')}]]", "held": "held[self]"}.get(name, name)
            parts.append(f'"shared.{target}": "{value}"')
        return parts

    def guard(self, words: str) -> str:
        """A guard that may read them, too; with `or` it might always hold, and an `ignore` beside it never apply."""
        if not self.data or self.rng.random() < 0.6:
            return words
        return f"({words}) and {self.truth()}"

    def truth(self, step: bool = False) -> str:
        """Something about them, in a state; `step`: or about a step."""
        return Terms(self.rng, self.read(old=step), divides=False).of("bool", 1)

    def told(self, field: str, words: str) -> str:
        """Returns what a message says in a field; it may say what a shared variable was before the step."""
        name = {"v": "mark", "n": "level", "tone": "tint", "at": "spot"}.get(field, "")
        if name not in self.data or self.rng.random() < 0.5:
            return words
        return f"max(0, min(2, old(shared.{name})))" if name == "level" else f"old(shared.{name})"
