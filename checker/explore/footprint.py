"""Steps of one part of a system, worked out once for all states that look alike to it.

Theory of operation. A machine's step reads and writes a few cells of the global state: its own, those that its
expressions name, and the channels that it sends and receives by. These are its *footprint*. In two states with the same
footprint the same steps are possible, and they make the same changes; so they are worked out for the first such state,
by the reference semantics, and for the others the changes are applied. Most of a large graph is one part's few
footprints in every combination with those of the others.

What expressions read is read off their compiled source. Where that does not show it, the part is worked out in every
state; so it is where footprints turn out to differ nearly everywhere. The other cells (a machine's own, its channels,
who is up) are listed by whoever makes the part. A step that writes elsewhere is refused; one that reads elsewhere is
seen only by the test that compares footprints with the semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import count
from typing import Any, TypeAlias

from leasehold.checker.explore.compiled import looking
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.step import Action, SpecFault

Steps: TypeAlias = Iterator[tuple[Action, State]]
Change: TypeAlias = tuple[Action, tuple[tuple[int, Any], ...]]  # what happened, and the cells that it wrote

_numbers = count(1)
TRIAL = 50_000  # after so many new footprints and not twice as many known ones, they are not worth keeping


class Part:
    """A part of a system: its steps, with those of one footprint worked out once.

    Attributes:
        work_out: the steps from a state, given of which of the kinds of `faults` any are left.
        faults: kinds of faults.
        only: in which states there are any, where that is known sooner.
    """

    def __init__(
        self, cells: Iterable[int] | None, steps: Callable[[State, Any], Steps], faults: tuple[str, ...] = (),
        only: Callable[[State], bool] | None = None,
    ) -> None:  # fmt: skip
        self.work_out, self.faults, self.only = steps, faults, only
        self._cells = tuple(sorted(set(cells))) if cells is not None else ()
        self._look = looking(self._cells) if cells is not None else None
        self._known: dict[Hashable, tuple[list[Change], SpecFault | None]] = {}
        self._asked = 0

    def steps(self, s: State, of: tuple[bool, ...] = ()) -> Steps:
        """The steps of this part from a state, given of which of its kinds of faults any are left.

        Raises:
            SpecFault: a step shows that the specification is wrong.
        """
        if self.only is not None and not self.only(s):
            return
        if self._look is None:
            yield from self.work_out(s, of)
            return
        key = (self._look(s), of)
        found = self._known.get(key)
        self._asked += 1
        if found is None:
            found = self._known[key] = self._changes(s, of)
            if len(self._known) == TRIAL and self._asked < 3 * TRIAL:
                self._look, self._known = None, {}
        changes, fault = found
        for action, writes in changes:
            after = list(s)
            for cell, value in writes:
                after[cell] = value
            yield action, tuple(after)
        if fault is not None:
            raise SpecFault(fault.kind, str(fault))

    def _changes(self, s: State, of: tuple[bool, ...]) -> tuple[list[Change], SpecFault | None]:
        changes: list[Change] = []
        try:
            for action, after in self.work_out(s, of):
                writes = tuple((c, after[c]) for c in self._cells if after[c] is not s[c])
                self._check(s, after, {c for c, _ in writes})
                changes.append((action._replace(change=next(_numbers)), writes))
        except SpecFault as fault:
            return changes, fault
        return changes, None

    def _check(self, s: State, after: State, written: set[int]) -> None:
        """A step that writes outside the footprint would be kept without what it wrote there."""
        for c, (was, became) in enumerate(zip(s, after, strict=True)):
            if was is not became and c not in written and was != became:
                raise AssertionError(f"a step of {self.work_out} writes cell {c}, which is not in its footprint")
