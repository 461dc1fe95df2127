"""How many faults of each kind an exploration may use: `crash=2,duplicate=1,lose=any`.

A budget counts over the whole run. `any` is no limit, for faults that cannot make a run endless.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

Count: TypeAlias = int | Literal["any"]

_UNLIMITED = ("duplicate", "lose", "reorder")


class BudgetError(ValueError):
    """A text is not a budget: the user's fault. The message says what is wrong, and the near miss."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What may go wrong, and how often.

    Attributes:
        crash: an actor stops, at any point of any step, and restarts.
        power_cut: all actors stop at once, between two steps.
        duplicate: a message is received twice.
        lose: a message is lost although its sender runs; those of a crashed sender may always be lost.
        reorder: a message overtakes earlier ones.
    """

    crash: int = 0
    power_cut: int = 0
    duplicate: Count = 0
    lose: Count = 0
    reorder: Count = 0

    def __str__(self) -> str:
        return ",".join(f"{f.name}={v}" for f in fields(self) if (v := getattr(self, f.name)) != 0) or "none"

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Reads `crash=2,duplicate=1`; `none` is no fault, `default` is DEFAULT.

        Raises:
            BudgetError: a word is not a fault, or its value no count.
        """
        if text.strip() in ("none", "default"):
            return DEFAULT if text.strip() == "default" else cls()
        given: dict[str, Count] = {}
        if not text.strip():
            raise BudgetError("there is no fault in an empty text; write `none` for no faults")
        for word in text.split(","):
            name, _, value = (part.strip() for part in word.partition("="))
            if name in given:
                raise BudgetError(f"{name} is given twice")
            given[_known(name)] = _count(name, value)
        return cls(**given)  # type: ignore[arg-type]


def _known(name: str) -> str:
    names = [f.name for f in fields(Budget)]
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BudgetError(f"there is no fault {name[:40]!r}{hint} (faults: {', '.join(names)})")
    return name


def _count(name: str, value: str) -> Count:
    if value == "any" and name in _UNLIMITED:
        return "any"
    if not value.isascii() or not value.isdigit() or len(value) > 2:
        more = " or `any`" if name in _UNLIMITED else ""
        raise BudgetError(f"{name} needs a number from 0 to 99{more}, as in {name}=1, not {value[:40]!r}")
    return int(value)


DEFAULT = Budget(crash=2, duplicate=1)
