"""Watches running actors, each in a thread of its own, at most once a second.

An actor that does not answer stays as it was seen last, with since when it has not answered. Its machines, units and
metrics are read from its control socket; what they wait for, and what units have been through, from its events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from leasehold.checker.explain.explained_machines import ExplainedMachines
from leasehold.checker.explain.machines import KnownMachines
from leasehold.checker.explain.views import EventViews, OtherSystem
from leasehold.checker.history.chains import read_chain
from leasehold.checker.history.fold import MachineOf
from leasehold.cli.client import RECENT, with_history
from leasehold.cli.leases import awaited, lease_cell, leave_text, unit_cells, waits_text
from leasehold.cli.operations.calendar import ends_of, periods, unit_row
from leasehold.cli.operations.numbers import MetricHistory
from leasehold.cli.sources import played_system
from leasehold.impl.compiler.program import NotRunnable, compile_system
from leasehold.impl.events.chain import ChainError
from leasehold.impl.events.event import EventError
from leasehold.impl.server.client import Client, ClientError, Unreachable, sockets
from leasehold.impl.server.config import ConfigError, configurations, read_config
from leasehold.impl.server.event_source import ActorSource
from leasehold.spec import SpecError

EVERY_SECONDS = 1.0
LIMIT_SECONDS = 2.0  # after which an actor counts as not answering
WHOLE_SECONDS = 5.0  # after which all is read again, though no event has come
MOST = 500  # machines of an actor, and units, that are shown
HISTORY = 60  # steps of a machine that are kept


@dataclass(frozen=True, order=True)
class WatchedPlace:
    """A control socket, and the name of its actor as far as it is known before it answers."""

    path: Path
    name: str


def watched_places(at: Sequence[Path]) -> list[WatchedPlace]:
    """The actors at places, also those that are configured in a folder and down.

    Raises:
        Unreachable: there is none.
    """
    found: dict[Path, WatchedPlace] = {}
    for place in at:
        configured = configurations(place) if place.is_dir() else [place] if place.is_file() else []
        for file in configured:
            try:
                settings = read_config(file)
            except ConfigError as error:
                raise Unreachable(str(error)) from None
            path = file.parent / settings.socket
            found[path.absolute()] = WatchedPlace(path, settings.name)
        try:
            paths = [] if place.is_file() else sockets(place)
        except Unreachable:
            if not configured:
                raise
            paths = []
        for path in paths:
            found.setdefault(path.absolute(), WatchedPlace(path, path.stem))
    return sorted(found.values())


class ExplainedSystems:
    """The systems that actors play, each loaded once."""

    def __init__(self) -> None:
        self._known: dict[str, ExplainedMachines | str] = {}
        self._lock = threading.Lock()

    def of(self, agreement: str, socket: Path) -> ExplainedMachines | str:
        """The system of an actor, or why it is not known.

        Raises:
            ClientError: the actor does not answer.
        """
        with self._lock:
            if agreement not in self._known:
                try:
                    model = played_system(None, {}, (str(socket),)).model
                    self._known[agreement] = ExplainedMachines(model, compile_system(model))
                except (SpecError, ConfigError, NotRunnable, click.UsageError) as error:
                    self._known[agreement] = str(error)
            return self._known[agreement]


class ActorWatch(threading.Thread):
    """Watches an actor; it is over, once ended, after the time that an actor may take to answer.

    Args:
        place: where it is.
        systems: that actors play.
        changed: is called, in the watch's thread, when there is another view.

    Attributes:
        view: as it was seen last; it is put in place whole.
    """

    def __init__(self, place: WatchedPlace, systems: ExplainedSystems, changed: Callable[[], None]) -> None:
        super().__init__(name=f"watch {place.name}", daemon=True)
        self.place, self._systems, self._changed = place, systems, changed
        self.client = Client(place.path, LIMIT_SECONDS)
        self.view: dict[str, Any] = {"name": place.name, "socket": str(place.path), "seen": None, "answers": None}
        self._known, self._position, self._epoch = KnownMachines(), 0, 0
        self._rows: list[dict[str, Any]] = []
        self._units: list[dict[str, Any]] = []
        self._whole = 0.0
        self._metrics = MetricHistory()
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                began = time.monotonic()
                self.look()
                self._changed()
                self._ended.wait(max(0.05, EVERY_SECONDS - (time.monotonic() - began)))
        finally:
            if not self._ended.is_set():
                self._no_answer("nobody watches it any more: this server has failed, as its own output says")
                self._changed()

    def look(self) -> None:
        """Looks once."""
        try:
            about = self.client.get("about")
        except (ClientError, ValueError) as error:
            self._no_answer(str(error))
            return
        trouble = about["low"]
        parts: dict[str, Any] = {}
        try:
            parts = self._read(about)
        except Unreachable as error:
            self._no_answer(str(error))
            return
        except (ClientError, ChainError, EventError, ValueError, OSError) as error:
            trouble = str(error)
        self.view = {
            **self.view,
            **parts,
            **{name: about[name] for name in ("name", "roles", "system", "epoch", "now", "tick_seconds", "running")},
            "takes_demands": about["takes_demands"],
            "folder": about["folder"],
            "waiting": about["messages_waiting"],
            "answers": True,
            "silent": None,
            "seen": time.time(),
            "why": trouble,
        }

    def _no_answer(self, why: str) -> None:
        since = self.view["silent"] if self.view["answers"] is False else time.time()
        self.view = {**self.view, "answers": False, "silent": since, "why": why}

    def _read(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """Reads what has changed, and returns the parts of the view."""
        state = self.client.get("events", "state")
        self._metrics.take(self.client.read("metrics").decode(), time.monotonic())
        moved = (state["last"], about["epoch"]) != (self._position, self._epoch)
        if moved:
            self._read_events(state)
        if moved or time.monotonic() - self._whole > WHOLE_SECONDS:
            self._rows, self._units = self.client.get("leases"), with_history(self.client.get("units"), self._known)
            self._whole, self._epoch = time.monotonic(), about["epoch"]
        explained = self._systems.of(about["agreement"], self.place.path)
        known = None if isinstance(explained, str) else explained
        abouts, now = [dict(about)], about["now"]
        lasting = {row["lease"] for row in self._rows if not row["over"]}
        ends = ends_of(self._rows)
        return {
            "last": state["last"],
            "last_at": self._known.actors[about["name"]].time if about["name"] in self._known.actors else None,
            "followers": {name: state["last"] - position for name, position in state["followers"].items()},
            "rows": [{**row, "text": lease_cell(row, now, about["tick_seconds"])} for row in self._rows],
            "units": [
                {**dict(zip(("lasted", "record", "past"), unit_cells(unit, abouts), strict=True)), **_short(unit)}
                for unit in self._units[:MOST]
            ],
            "unit_count": len(self._units),
            "unit_recovery": about["units"] > 0,  # machines of runs alone are recovered with their run
            "calendar": [unit_row(unit, known, ends, lasting) for unit in self._units[:MOST]],
            "periods": [] if self._units else periods(self._rows)[:MOST],
            "waits": [] if known is None else [*self._waits(known, about)],
            "unexplained": explained if isinstance(explained, str) else "",
            "metrics": self._metrics.as_json(),
        }

    def _read_events(self, state: Mapping[str, Any]) -> None:
        last, first = state["last"], state["first"]
        if last < self._position or last - self._position > RECENT:
            self._known, self._position = KnownMachines(), 0
        after = max(self._position, last - RECENT)
        lines = ActorSource(self.client).lines(after if after >= first else 0)
        for event in read_chain(lines, None, unsigned=True)[1]:
            if event.position > self._position:
                self._known.take(event)
                self._position = event.position
        machines = self._known.machines
        for key in [key for key, machine in machines.items() if machine.forgotten is not None]:
            del machines[key]
        for machine in machines.values():
            del machine.history[:-HISTORY]

    def _waits(self, explained: ExplainedMachines, about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields what each machine waits for that is not over."""
        now, tick = about["now"], about["tick_seconds"]
        views = EventViews(explained, self._known, now)
        for row in [row for row in self._rows if not row["over"]][:MOST]:
            key = MachineOf(row["actor"], row["lease"], row["machine"])
            if key not in self._known.machines:
                continue
            try:
                waiting = views.waiting(key)
            except OtherSystem:  # it changes its specification at the moment
                continue
            leaves, peers = waiting["leaves"], waiting["peers"]
            yield {
                **{name: row[name] for name in ("lease", "machine", "actor", "state")},
                "when": waits_text(waiting, now, tick),
                "events": [leave_text(one, peers, now, tick) for one in leaves],
                "whom": awaited(leaves, peers),
            }


def _short(unit: Mapping[str, Any]) -> dict[str, Any]:
    return {name: unit[name] for name in ("unit", "actor", "machine", "state", "lease", "left")}
