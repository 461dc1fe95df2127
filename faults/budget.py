"""How many faults of each kind an exploration may use: `crash=2,duplicate=1,lose=any,skew=1`.

A count holds over the whole run. `any` is no limit, for faults that cannot make a run endless. `skew` bounds how far
clocks differ, and `byzantine` names roles.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import cycle, product
from typing import Literal, TypeAlias

Count: TypeAlias = int | Literal["any"]

# Words for whole budgets, and what else is said to whoever takes them for faults.
ALONE = {
    "none": "", "default": "",
    "deep": ": ever larger budgets are tried, for as long as --hours says, as in `crash lease --faults deep --hours 2`",
}  # fmt: skip
_UNLIMITED = ("duplicate", "lose", "reorder")


class BudgetError(ValueError):
    """A text is not a budget: the user's fault. The message says what is wrong, and the near miss."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What may go wrong, and how often; faults/catalogue.yaml says what each means.

    Attributes:
        crash: an actor, or the actors of one node, stop at any point of any step, and restart.
        power_cut: all actors stop at once, at any point of any step, and restart.
        halt: an actor stops for good.
        duplicate: a message is received twice.
        lose: a message is lost although its sender runs; those of a crashed sender may always be lost.
        reorder: a message overtakes earlier ones.
        partition: the actors fall into two sides that do not hear of each other, until it heals.
        skew: ticks by which an actor's clock may be ahead of true time; not a count.
        byzantine: the role whose machines send whatever they can sign; empty for none.
    """

    crash: int = 0
    power_cut: int = 0
    halt: int = 0
    duplicate: Count = 0
    lose: Count = 0
    reorder: Count = 0
    partition: int = 0
    skew: int = 0
    byzantine: str = ""

    def __str__(self) -> str:
        return ",".join(f"{f.name}={v}" for f in fields(self) if (v := getattr(self, f.name))) or "none"

    @property
    def passes(self) -> bool:
        """Whether all of it is over once faults stop: nobody is gone, lies, or has another time."""
        return not (self.halt or self.byzantine or self.skew)

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
            fault = _known(name)
            given[fault] = _count(fault, value)
        return cls(**given)  # type: ignore[arg-type]

    def weaker(self) -> Iterator[Budget]:
        """Every budget with fewer faults (but some), the weakest first: by how many, then in the order of fields."""
        choices = [_fewer(getattr(self, f.name)) for f in fields(self)]
        found = [Budget(*values) for values in product(*choices)]  # type: ignore[arg-type]
        yield from sorted((b for b in found if b not in (self, Budget())), key=Budget._weight)

    def _weight(self) -> tuple[int, tuple[int, ...]]:
        sizes = tuple(99 if v == "any" else v if isinstance(v, int) else bool(v) for v in _values(self))
        return sum(sizes), tuple(-n for n in sizes)


def deepening() -> Iterator[Budget]:
    """Ever larger budgets of the faults that every system has: one more fault at a time."""
    budget = DEFAULT
    yield budget
    for more in cycle(("power_cut", "reorder", "crash", "lose", "duplicate")):
        count = getattr(budget, more)
        if count == 99:
            return
        budget = replace(budget, **{more: count + 1})
        yield budget


def _values(budget: Budget) -> list[Count | str]:
    return [getattr(budget, f.name) for f in fields(budget)]


def _fewer(value: Count | str) -> list[Count | str]:
    if value == "any":
        return [0, 1, "any"]
    return list(range(value + 1)) if isinstance(value, int) else list(dict.fromkeys(["", value]))


def _known(name: str) -> str:
    names = [f.name for f in fields(Budget)]
    if name in ALONE:
        raise BudgetError(f"`{name}` stands alone, without a number or other faults{ALONE[name]}")
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BudgetError(f"there is no fault {name[:40]!r}{hint} (faults: {', '.join(names)})")
    return name


def _count(name: str, value: str) -> Count:
    if name == "byzantine":
        if not value.isidentifier():
            raise BudgetError(f"byzantine needs the name of a role, as in byzantine=broker, not {value[:40]!r}")
        return value  # type: ignore[return-value]
    if value == "any" and name in _UNLIMITED:
        return "any"
    if not value.isascii() or not value.isdigit() or len(value) > 2:
        more = " or `any`" if name in _UNLIMITED else ""
        raise BudgetError(f"{name} needs a number from 0 to 99{more}, as in {name}=1, not {value[:40]!r}")
    return int(value)


DEFAULT = Budget(crash=2, duplicate=1, lose=1)
