"""The catalogue of faults, as values; docs/reference/faults.md is made from it.

catalogue.yaml has the faults of actors, messages and clocks, which are explored; infrastructure.yaml those of what is
below a site, which real hosts have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from leasehold.spec.language import table


class BudgetUnit(StrEnum):
    """The unit of a kind of fault in a budget."""

    COUNT = "count"  # how many a whole run may have
    COUNT_OR_ANY = "count or any"  # the same, or `any` for no limit: it cannot make a run endless
    TICKS = "ticks"  # a bound that is not used up
    PERCENT = "percent"  # the same, below 100
    ROLE = "role"  # whose fault it is


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: as a budget calls it.
        unit: what a budget says of it; None where it needs no budget and comes with every crash.
        lasts: it is not over once faults stop: somebody is gone, lies, or has another time.
        stops: what a diagram says where an actor stops by it; empty where none does in a step of its name.
        doc: what it is, in a sentence.
        model: what the explorer does.
        actor: what is done to a running actor.
        source: where it comes from.
        steps: how a path prints it and what undoes it; words in capitals stand for names.
    """

    name: str
    unit: BudgetUnit | None
    lasts: bool
    stops: str
    doc: str
    model: str
    actor: str
    source: str
    steps: tuple[str, ...]

    @property
    def counted(self) -> bool:
        """Returns whether what a budget has of it is used up."""
        return self.unit in (BudgetUnit.COUNT, BudgetUnit.COUNT_OR_ANY)

    @property
    def nothing(self) -> int | str:
        """The value that says that a budget has none of it."""
        return "" if self.unit is BudgetUnit.ROLE else 0


@cache
def catalogue() -> tuple[Fault, ...]:
    """Every fault, in the order of the file."""
    return tuple(
        Fault(
            name,
            BudgetUnit(entry["budget"]) if "budget" in entry else None,
            "lasts" in entry,
            entry.get("stops", ""),
            entry["doc"].strip(),
            entry["model"].strip(),
            entry["actor"].strip(),
            entry["source"].strip(),
            tuple(entry["steps"]),
        )
        for name, entry in table("catalogue.yaml", "leasehold.faults.model").items()
    )


@cache
def budgeted() -> Mapping[str, Fault]:
    """The faults that a budget has something to say of, by name."""
    return {fault.name: fault for fault in catalogue() if fault.unit is not None}


@dataclass(frozen=True, slots=True)
class InfrastructureFault:
    """A failure of what is below a site.

    Attributes:
        name: its name.
        row: in the paper's Table 2; 0: it has none.
        doc: what it is, in a sentence.
        model: what it is in the specification.
        host: what is done to a real host.
        noticed: who may notice it.
        repair: what has to mend it.
    """

    name: str
    row: int
    doc: str
    model: str
    host: str
    noticed: Sequence[str]
    repair: str


@cache
def infrastructure() -> Mapping[str, InfrastructureFault]:
    """The failures of infrastructure, by name, in the order of the file."""
    rows = table("infrastructure.yaml", "leasehold.faults.model").items()
    return {name: InfrastructureFault(name, int(entry.pop("row", 0)), **entry) for name, entry in rows}
