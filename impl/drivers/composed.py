"""A handler of units that are composed of parts, each by its driver.

Theory of operation (paper, sections 4.3.2 and 4.3.3). The unit's folder has the number of the newest action, which is
written before anything is done, and a list of what the unit is made of (`made.json`): a part is listed before its
driver begins, and until it is gone. So whenever the actor dies, the next action finds in the list everything that may
be there, whatever the configuration says by then, and

- `setup` and `modify` go through the parts in order, and let each driver make what is missing;
- `teardown` goes through the list backwards, and has each removed.

Repeated or interrupted, in any order, the last action is the one that counts (the toggle principle). A part that was
made to its end keeps, until its lease is over, the settings that its driver cannot change while it is up: a repair
makes the same again. If a part cannot be made, those that this task has made are removed, in reverse order, and what it
has changed is changed back; parts that were there before stay. A part of another lease, which was not torn down, is
removed first.

Programs that a dead actor has left at work are ended before anything else (tools.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from leasehold.impl import descriptors
from leasehold.impl.drivers import mounts
from leasehold.impl.drivers.composition import Composition, PartPlan, filled
from leasehold.impl.drivers.driver import Driver, Facts, FoundPart, UnitPart, named, settings_of, size_of
from leasehold.impl.drivers.images import Images
from leasehold.impl.drivers.site import DriverSite
from leasehold.impl.drivers.snapshots import Snapshots
from leasehold.impl.drivers.tools import Tools, end_leftovers
from leasehold.impl.handlers.handler import UNIT_NAME, Done, HandlerAction, HandlerError, NotBegun
from leasehold.impl.handlers.place import Cancelled, UnitDirectory, own_directory, read_file, want, write_file
from leasehold.impl.handlers.threads import act_in_thread, in_thread
from leasehold.impl.policy import plugins

UP, DOWN = ("setup", "modify"), ("teardown",)
MADE = "made.json"
GUARD_LIMIT = 30.0
ASKING = 4  # probes at a time


class SnapshotSettings(Struct, forbid_unknown_fields=True, frozen=True):
    """The limits of volumes that are kept.

    Attributes:
        quota: how much the snapshots of one holder may take.
        retention_seconds: how long one is kept.
    """

    quota: int | str = "1GiB"
    retention_seconds: float = 7 * 86400.0


class MadePart(Struct, forbid_unknown_fields=True):
    """A part of a unit that may be there.

    Attributes:
        name, kind: of the part, and of its driver.
        settings: with which it was made last, or was begun to be made.
        task: the task that has begun it.
        facts: about it; None: it was not made to its end yet.
        settled: whether its settings have taken effect.
    """

    name: str
    kind: str
    settings: dict[str, Any]
    task: str
    facts: dict[str, Any] | None = None
    settled: bool = False


class Made(Struct, forbid_unknown_fields=True):
    """The parts of a unit.

    Attributes:
        lease: that they serve.
        index: the number of the unit.
        whole: whether all are up that were asked for.
        served: whether they have been up for this lease, so that there is something to keep at its end.
        parts: in the order in which they were begun.
    """

    lease: str = ""
    index: int = 0
    whole: bool = False
    served: bool = False
    parts: list[MadePart] = []

    def part(self, name: str) -> MadePart | None:
        return next((part for part in self.parts if part.name == name), None)


class ComposedHandler:
    """The handler.

    Args:
        directory: has the units' folders, the images and the snapshots; made with access for its owner alone.
        parts: the composition, in the order in which the parts are made (composition.py).
        properties: the properties that steer it, by name.
        tells: the unit properties that holders are told, by name, with names in brackets.
        images: the menu of root file systems, by name (images.py).
        snapshots: the limits of volumes that are kept, `quota` and `retention_seconds`.
        parallel: how many actions there are at a time.
        at: called at each point of an action; tests crash there.
    """

    def __init__(
        self,
        directory: str | Path,
        parts: Sequence[Mapping[str, Any]],
        *,
        properties: Mapping[str, Any] | None = None,
        tells: Mapping[str, str] | None = None,
        images: Mapping[str, Any] | None = None,
        snapshots: Mapping[str, Any] | None = None,
        parallel: int = 8,
        at: Callable[[str], None] = lambda point: None,
    ) -> None:
        self._base = own_directory(Path(directory))
        try:
            kept = msgspec.convert(snapshots or {}, SnapshotSettings)
        except msgspec.ValidationError as error:
            raise HandlerError(f"snapshots: {error}") from None
        quota = size_of(kept.quota, "snapshots: quota")
        self._site = DriverSite(
            self._base,
            Images(self._base / ".images", images or {}),
            Snapshots(self._base / ".snapshots", quota, kept.retention_seconds),
        )
        self._composition = Composition(self._site, parts, properties or {}, tells or {})
        self._at, self.parallel = at, parallel
        self._pool = ThreadPoolExecutor(parallel, "composed-handler")
        self._asking = ThreadPoolExecutor(ASKING, "composed-probe")

    async def act(self, action: HandlerAction) -> Done:
        """Does an action.

        Raises:
            Stale: the unit has seen a newer one.
            HandlerError: it could not be done; what it had made is removed.
            NotBegun: the system lacks something at the moment; what it had made is removed.
        """
        return await act_in_thread(self._pool, self.do, action)

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        """The lease of a unit, and the facts about each of its parts."""
        return await in_thread(self._asking, self._facts, unit)

    async def is_up(self, unit: str) -> bool:
        """Returns whether each part of a unit is up. It waits for no action."""
        return await in_thread(self._asking, self._is_up, unit)

    async def left_of(self, unit: str) -> str:
        """The parts that there are of a unit."""
        return await in_thread(self._asking, self._left, unit)

    async def close(self) -> None:
        self._asking.shutdown(wait=False)
        await asyncio.to_thread(self._pool.shutdown)

    # Actions

    def do(self, action: HandlerAction, stop: threading.Event) -> Done:
        """Does an action, in any thread; `stop` cancels it.

        Raises:
            Stale, HandlerError, NotBegun: as `act`.
            Cancelled: it was cancelled.
        """
        if action.verb not in (*UP, *DOWN):
            raise HandlerError(f"composed units know {', '.join((*UP, *DOWN))}, not {action.verb!r}")
        place = self._place(action.unit)
        try:
            place.make()
            with place.guarded(stop, GUARD_LIMIT):
                self._at("guarded")
                want(place.wanted, action)
                self._at("wanted")
                lock = end_leftovers(place, Tools(place, None, stop))
                try:
                    return _Action(self, place, action, Tools(place, lock, stop)).do()
                finally:
                    os.close(lock)
        except OSError as error:
            if descriptors.is_passing(error) or error.errno in descriptors.FULL:
                raise NotBegun(f"{action.verb} of {action.unit}: {error}") from error
            raise HandlerError(f"{action.verb} of {action.unit}: {error}") from error

    # Looking

    def _facts(self, unit: str) -> dict[str, Any] | None:
        place = self._place(unit)
        made = read_made(place)
        if not made.parts:
            return None
        parts = {part.name: found.facts for part, found in self._found(place, made) if found is not None}
        return {"lease": made.lease, "whole": made.whole, "directory": str(place.folder), "parts": parts}

    def _is_up(self, unit: str) -> bool:
        place = self._place(unit)
        made = read_made(place)
        return made.whole and all(found is not None and found.up for _, found in self._found(place, made))

    def _left(self, unit: str) -> str:
        place = self._place(unit)
        return ", ".join(found.words for _, found in self._found(place, read_made(place)) if found is not None)

    def _found(self, place: UnitDirectory, made: Made) -> list[tuple[MadePart, FoundPart | None]]:
        looked, tools = list[tuple[MadePart, FoundPart | None]](), Tools(place)
        action = HandlerAction("probe", made.lease, place.folder.name, 0, {}, index=made.index)
        for one in made.parts:
            driver = self.driver(one)
            part = self.part_of(place, one, tools, action)
            looked.append((one, driver.probe(part, settings_of(driver, one.settings, one.name))))
        return looked

    # Parts

    def _place(self, unit: str) -> UnitDirectory:
        if not UNIT_NAME.fullmatch(unit):
            raise HandlerError(f"{unit[:80]!r} cannot be the name of a directory, so no unit may have it")
        return UnitDirectory(self._base / unit)

    def driver(self, one: MadePart) -> Driver:
        """The driver of a part that was made, also if the composition does not have it any more."""
        planned = self._composition.part(one.name)
        if planned is not None and planned.kind == one.kind:
            return planned.driver
        plugin = plugins.find("driver", one.kind)
        driver: Driver = plugin.make(plugin.taken({"site": self._site}))
        return driver

    def part_of(
        self, place: UnitDirectory, one: MadePart, tools: Tools, action: HandlerAction, ending: bool = False
    ) -> UnitPart:
        """A part, as its driver is told of it: its names follow from the directory, the unit and the part."""
        unit = place.folder.name
        short = hashlib.sha256(f"{self._base}/{unit}/{one.name}".encode()).hexdigest()[:11]
        return UnitPart(
            named(self._base, unit, one.name),
            f"lh{short}",
            place.folder / one.name,
            unit,
            tools,
            action,
            ending,
            lambda point: self._at(f"{one.name} {point}"),
        )

    @property
    def composition(self) -> Composition:
        return self._composition

    def point(self, name: str) -> None:
        """A point of an action that is no driver's."""
        self._at(name)


class _Action:
    """One action on one unit, under its guard."""

    def __init__(self, handler: ComposedHandler, place: UnitDirectory, action: HandlerAction, tools: Tools) -> None:
        self.handler, self.place, self.action, self.tools = handler, place, action, tools
        self.made = read_made(place)
        self.changed: list[tuple[MadePart, dict[str, Any]]] = []  # what this action has changed, and from what
        self.unlisted = False  # whether the list on disk says less than is known

    def do(self) -> Done:
        if self.action.verb in DOWN:
            kept = self._remove(self.made.parts, ending=True)
            self._list()
            self.place.sweep(self.place.wanted, self.place.folder / MADE)
            return Done(True, "; ".join(["nothing is left of it", *kept]), {"up": False})
        if self.made.parts and self.made.lease != self.action.lease:
            self._remove(self.made.parts, ending=True)
        try:
            facts = self._bring_up()
        except Cancelled:
            raise
        except (HandlerError, OSError) as error:
            if left := self._undo():
                raise HandlerError(f"{error}; and {left}") from error
            raise
        values = self.handler.composition.values(self.action) | facts
        told = {name: filled(one, values) for name, one in self.handler.composition.tells.items()}
        parts = {part.name: part.facts for part in self.made.parts}
        return Done(True, "all parts are up", {"up": True, "lease": self.action.lease, **parts}, properties=told)

    # Up

    def _bring_up(self) -> dict[str, Any]:
        """Makes all parts; returns their facts, by PART.FACT."""
        composition = self.handler.composition
        values = composition.values(self.action)
        planned = {part.name: part.kind for part in composition.parts}
        if strange := [one for one in self.made.parts if planned.get(one.name) != one.kind]:
            self._remove(strange)  # parts that the composition does not have any more
        if self.made.lease != self.action.lease:
            self.made.served = False
        self.made.lease, self.made.index = self.action.lease, self.action.index
        facts: dict[str, Any] = {}
        for plan in composition.parts:
            found = self._bring_up_part(plan, filled(plan.settings, values | facts))
            facts |= {f"{plan.name}.{name}": found.get(name, "") for name in plan.driver.facts}
        if not self.made.whole:
            self.made.whole = self.made.served = self.unlisted = True
        if self.unlisted:
            self._list()
        self.handler.point("whole")
        return facts

    def _bring_up_part(self, plan: PartPlan, wanted: dict[str, Any]) -> Facts:
        one = self.made.part(plan.name)
        before = dict(one.settings) if one is not None else {}
        if one is not None and one.facts is not None:
            fixed = {name: value for name, value in before.items() if name not in plan.driver.changes}
            changeable = {name: value for name, value in wanted.items() if name in plan.driver.changes}
            wanted = fixed | changeable
        elif one is not None and before != wanted:
            self._remove([one])
            one = None
        settings = settings_of(plan.driver, wanted, plan.name)
        is_there = one is not None and one.facts is not None
        if one is None:
            one = MadePart(plan.name, plan.kind, wanted, self.action.task)
            self.made.parts.append(one)
        must_change = is_there and (wanted != before or not one.settled or self.action.verb == "modify")
        if must_change and wanted != before:
            self.changed.append((one, before))
        if not is_there or must_change:
            one.settings, one.settled = wanted, False
            self._list()
        part = self.handler.part_of(self.place, one, self.tools, self.action)
        part.folder.mkdir(mode=0o700, exist_ok=True)
        self.handler.point(f"{plan.name} listed")
        facts = dict(plan.driver.create(part, settings))
        if must_change:
            facts |= plan.driver.modify(part, settings)
        if one.facts != facts or not one.settled:
            # Written down with the next part, or when all are up: until then it is as if its driver had been killed.
            one.facts, one.settled, self.unlisted = facts, True, True
        return facts

    def _undo(self) -> str:
        """Changes back what this action has changed, and removes what its task has made; returns what is left."""
        left = []
        for one, before in reversed(self.changed):
            driver, one.settings = self.handler.driver(one), before
            part = self.handler.part_of(self.place, one, self.tools, self.action)
            try:
                driver.modify(part, settings_of(driver, before, one.name))
                one.settled = True
            except (HandlerError, OSError) as error:
                left.append(f"{one.name} was not changed back: {error}")
        try:
            self._remove([one for one in self.made.parts if one.task == self.action.task])
        except HandlerError as error:
            left.append(str(error))
        self._list()
        return "; ".join(left)

    # Down

    def _remove(self, parts: Sequence[MadePart], ending: bool = False) -> list[str]:
        """Removes parts, the last first; returns what is said of those that were kept.

        Raises:
            HandlerError: not all could be removed; the others are.
        """
        kept, left = list[str](), list[str]()
        if parts and self.made.whole:
            self.made.whole = False
            self._list()
        for one in list(reversed(parts)):
            driver = self.handler.driver(one)
            part = self.handler.part_of(
                self.place,
                one,
                self.tools,
                replace(self.action, lease=self.made.lease, index=self.made.index),
                ending and self.made.served,
            )
            try:
                settings = settings_of(driver, one.settings, one.name)
                facts = driver.destroy(part, settings)
                if "snapshot" in facts:
                    kept.append(f"snapshot {facts['snapshot']}")
                _remove_folder(part.folder)
                self.handler.point(f"{one.name} gone")
            except (HandlerError, OSError) as error:
                left.append(f"{one.name} is left: {error}")
                continue
            self.made.parts.remove(one)
            self._list()
        if left:
            raise HandlerError("; ".join(left))
        return kept

    def _list(self) -> None:
        """Writes down what there may be of the unit."""
        self.unlisted = False
        if self.made.parts:
            write_file(self.place.folder / MADE, msgspec.to_builtins(self.made))
        else:
            with suppress(FileNotFoundError):
                (self.place.folder / MADE).unlink()


def read_made(place: UnitDirectory) -> Made:
    """The parts that there may be of a unit."""
    return msgspec.convert(read_file(place.folder / MADE), Made)


def _remove_folder(folder: Path) -> None:
    """Removes what a part has had in its folder.

    Raises:
        HandlerError: something is mounted there, which would be removed with it.
    """
    if found := mounts.below(folder):
        raise HandlerError(f"{found[0].point} is still mounted")
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
