"""Many histories of one system, verified in one database: the queries are asked once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from leasehold.checker.verify.causal import CutFault
from leasehold.checker.verify.cuts import ConsistentCuts, Cut, CutsOfSystem
from leasehold.checker.verify.history import HistoryVerification, Violation
from leasehold.impl.events.event import AnyEvent
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Property, System

History = Mapping[str, Iterable[AnyEvent]]
SEPARATOR = " in "  # between a run and its history, in the name of the run


class BatchVerification(HistoryVerification):
    """Verifies histories that have nothing to do with each other.

    Each has an order and a time of its own, and its runs have its name behind theirs.

    Args:
        known: the system of all of them.
        properties: those that are asked; None: all.

    Attributes:
        faults: what is wrong with the events, by history.
        runs_of: how many runs each history has.
    """

    def __init__(self, known: CutsOfSystem, properties: Mapping[str, Property] | None = None) -> None:
        super().__init__(known, (), properties)
        self.faults: dict[str, list[CutFault]] = {}
        self.runs_of: dict[str, int] = {}

    def history(self, name: str, history: History, complete: bool = False) -> None:
        """One more history; `complete`: each of its runs is over with its last event, in whatever state."""
        self.cuts = ConsistentCuts(self.known, history)
        for actor, events in history.items():
            self.add(actor, events)
        self.cuts.close()
        before = set(self._numbers)
        self._record(_named(name, self.cuts.ready()))
        self._record(_named(name, self.cuts.pass_time()))
        mine = self._numbers.keys() - before
        for run in mine:
            number = self._numbers[run]
            if complete or any(holds(self._logs[number][-1].state, (), -1) for holds in self._ends):
                self.recorder.end(number)
                self.result.over += 1
        self.result.runs += len(mine)
        self.runs_of[name] = len(mine)
        self.faults[name] = self.cuts.faults

    def asked(self) -> list[tuple[str, Violation]]:
        """The violations of what has come since it was asked last, each with the name of its history."""
        return [(violation.run.partition(SEPARATOR)[2], violation) for violation in self._ask()]


def _named(name: str, cuts: Iterable[Cut]) -> Iterator[Cut]:
    return (cut._replace(run=f"{cut.run}{SEPARATOR}{name}") for cut in cuts)


def timeless(system: System) -> Mapping[str, Property]:
    """The properties that do not speak of time: where clocks differ, the others may be violated by that alone."""
    return {name: p for name, p in system.properties.items() if not _speaks_of_time(p)}


def _speaks_of_time(p: Property) -> bool:
    parts = [p.claim, *(() if p.when is None else (p.when,))]
    return p.within is not None or any(x.mentions(e, _is_of_time) for e in parts)


def _is_of_time(e: x.Expression) -> bool:
    return isinstance(e, x.Now) or isinstance(getattr(e, "type", None), t.Time)
