"""The number of faults of each kind that an exploration may use: `crash=2,duplicate=1,lose=any,skew=1`.

A count holds over the whole run. `any` is no limit, for faults that cannot make a run endless. `skew` bounds how far
clocks differ in ticks, `drift` their rates in percent, and `byzantine` names roles.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from itertools import cycle, product
from typing import Any, Literal, TypeAlias

from leasehold.faults.model.catalogue import BudgetUnit, Fault, budgeted

Count: TypeAlias = int | Literal["any"]

ALONE = ("none", "default")  # words for whole budgets


class BudgetError(ValueError):
    """A text is not a budget: the user's fault. The message names the mistake and the near miss."""


class Budget:
    """The faults that may happen, and how often: a value by kind of fault; catalogue.yaml defines the kinds.

    A kind is an attribute, too: `budget.crash` is 0 where no crash is in the budget, `budget.byzantine` is empty.

    Attributes:
        given: by kind, its value, in the order of the catalogue; kinds that are not in the budget are missing.
    """

    __slots__ = ("given",)
    given: Mapping[str, Count | str]

    def __init__(self, **given: Count | str) -> None:
        unknown = given.keys() - budgeted().keys()
        if unknown:
            raise TypeError(f"there is no fault {min(unknown)}")
        self.given = {name: given[name] for name in budgeted() if given.get(name)}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in budgeted():
            raise AttributeError(name)
        return self.given.get(name, budgeted()[name].nothing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Budget) and self.given == other.given

    def __hash__(self) -> int:
        return hash(tuple(self.given.items()))

    def __repr__(self) -> str:
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.given.items()) or "none"

    @property
    def limits(self) -> dict[str, int]:
        """The most faults that a whole run may have, by kind that is counted."""
        return {n: v for n, v in self.given.items() if budgeted()[n].counted and isinstance(v, int)}

    @property
    def unlimited(self) -> frozenset[str]:
        """The kinds of which a run may have any number."""
        return frozenset(n for n, v in self.given.items() if v == "any" and budgeted()[n].counted)

    def with_more(self, **given: Count | str) -> Budget:
        """The budget with other values for some kinds."""
        return Budget(**{**self.given, **given})

    @property
    def passes(self) -> bool:
        """Returns whether all of it is over once faults stop: nobody is gone, lies, or has another time."""
        return not any(budgeted()[name].lasts for name in self.given)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Reads `crash=2,duplicate=1`; `none` is no fault, `default` is DEFAULT.

        Raises:
            BudgetError: a word is not a fault, or its value no count.
        """
        if text.strip() in ("none", "default"):
            return DEFAULT if text.strip() == "default" else cls()
        given: dict[str, Count | str] = {}
        if not text.strip():
            raise BudgetError("there is no fault in an empty text; write `none` for no faults")
        for word in text.split(","):
            name, _, value = (part.strip() for part in word.partition("="))
            if name in given:
                raise BudgetError(f"{name} is given twice")
            fault = _known(name)
            given[fault] = _count(fault, value)
        return cls(**given)

    def weaker(self) -> Iterator[Budget]:
        """Every budget with fewer faults (but some), the weakest first: by how many, then in the order of kinds."""
        values = product(*(_fewer(fault, self) for fault in budgeted().values()))
        budgets = [Budget(**dict(zip(budgeted(), chosen, strict=True))) for chosen in values]
        yield from sorted((b for b in budgets if b not in (self, Budget())), key=Budget._weight)

    def parts(self) -> Iterator[Budget]:
        """Ever larger parts of this budget, one more fault at a time, and at last the whole of it."""
        counts = {name: value for name, value in self.given.items() if budgeted()[name].counted}
        part = Budget(**{name: value for name, value in self.given.items() if name not in counts})
        if not counts:
            yield part
        for number in range(1, 1 + max((self.limits.get(name, 1) for name in counts), default=0)):
            for name, value in counts.items():
                if number <= self.limits.get(name, 1):
                    part = part.with_more(**{name: value if value == "any" else number})
                    yield part

    def _weight(self) -> tuple[int, tuple[int, ...]]:
        values = {name: self.given.get(name, 0) for name in budgeted()}
        sizes = tuple(99 if n in self.unlimited else v if isinstance(v, int) else bool(v) for n, v in values.items())
        return sum(sizes), tuple(-n for n in sizes)


def deepening() -> Iterator[Budget]:
    """Ever larger budgets of the faults that every system has: one more fault at a time."""
    budget = DEFAULT
    yield budget
    for more in cycle(("power_cut", "reorder", "crash", "lose", "duplicate")):
        count = getattr(budget, more)
        if count == 99:
            return
        budget = budget.with_more(**{more: count + 1})
        yield budget


def _fewer(fault: Fault, budget: Budget) -> list[Count | str]:
    value = budget.given.get(fault.name, fault.nothing)
    if fault.name in budget.unlimited:
        return [0, 1, "any"]
    return list(range(value + 1)) if isinstance(value, int) else list(dict.fromkeys(["", value]))


def _known(name: str) -> str:
    names = list(budgeted())
    if name in ALONE:
        raise BudgetError(f"`{name}` stands alone, without a number or other faults")
    if name == "deep":
        raise BudgetError("there is no fault 'deep'; `leasehold crash deep SYSTEM` tries ever larger budgets")
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BudgetError(f"there is no fault {name[:40]!r}{hint} (faults: {', '.join(names)})")
    return name


def _count(name: str, value: str) -> Count | str:
    unit = budgeted()[name].unit
    if unit is BudgetUnit.ROLE:
        if not value.isidentifier():
            raise BudgetError(f"{name} needs the name of a role, as in {name}=broker, not {value[:40]!r}")
        return value
    if value == "any" and unit is BudgetUnit.COUNT_OR_ANY:
        return "any"
    if not value.isascii() or not value.isdigit() or len(value) > 2:
        more = " or `any`" if unit is BudgetUnit.COUNT_OR_ANY else ""
        number, example = ("a whole percentage", 25) if unit is BudgetUnit.PERCENT else ("a number", 1)
        raise BudgetError(f"{name} needs {number} from 0 to 99{more}, as in {name}={example}, not {value[:40]!r}")
    return int(value)


DEFAULT = Budget(crash=2, duplicate=1, lose=1)
