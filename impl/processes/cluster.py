"""The actors of a system as processes, for integration tests, with the methods of those in one process."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from leasehold.impl.core.core import Program
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.server.client import Client, ClientError
from leasehold.impl.server.event_source import open_source
from leasehold.impl.store.store import StoreError
from leasehold.spec import System

SETTLED_SECONDS, LIMIT_SECONDS, LOOK_SECONDS = 0.4, 60.0, 0.05  # of actors that come to rest
AnyFleet = TypeVar("AnyFleet", bound=SystemFleet)


class Processes(Generic[AnyFleet]):
    """The processes of a fleet in a folder of their own, which `stop` removes. Time is real, and `advance` waits.

    Args:
        fleet: not started yet.
    """

    def __init__(self, fleet: AnyFleet) -> None:
        self.fleet, self._ended = fleet, dict[str, list[bytes]]()
        try:
            fleet.__enter__()
        except BaseException:
            shutil.rmtree(fleet.folder, ignore_errors=True)
            raise
        self._begin = self.tick

    @property
    def system(self) -> System:
        """The specification with its constants."""
        return self.fleet.model

    @property
    def program(self) -> Program:
        """The same, compiled."""
        return self.fleet.program

    @property
    def tick(self) -> int:
        """The tick of the actors' clocks, as their events have it."""
        return int(time.time() / self.fleet.tick_seconds)

    @property
    def now(self) -> int:
        """The clock, in ticks since the actors began."""
        return self.tick - self._begin

    def advance(self, ticks: int = 1) -> None:
        """Waits for so many ticks."""
        until = (self._begin + self.now + ticks) * self.fleet.tick_seconds
        time.sleep(max(0.0, until - time.time()))
        self.settle()

    def crash(self, actor: str, restart: bool = True) -> None:
        """Ends an actor as `kill -9` does, and starts it again."""
        self.fleet.kill(actor)
        if restart:
            self.restart(actor)

    def restart(self, actor: str) -> None:
        """Starts an actor that was crashed."""
        self.fleet.start(actor)
        self.fleet.await_ready(actor)
        self.settle()

    def settle(self) -> None:
        """Waits until nothing has moved for a moment, no handler is at work, and who is up has its messages.

        Raises:
            TimeoutError: it goes on and on.
        """
        deadline = time.monotonic() + LIMIT_SECONDS
        before, since = self._picture(), time.monotonic()
        while time.monotonic() < since + SETTLED_SECONDS:
            time.sleep(LOOK_SECONDS)
            now = self._picture()
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the actors do not come to rest within {LIMIT_SECONDS:.0f} s")

    def _picture(self) -> list[Any]:
        """The state that does not change while the actors are at rest."""
        picture: list[Any] = []
        up = {name: about for name in self.fleet.roles if (about := self.fleet.about(name))}
        for name, about in up.items():
            at_work = about["handlers_at_work"] or not up.keys().isdisjoint(about["messages_on_their_way"])
            rows = [(row["lease"], row["state"], row["data"]) for row in self._rows(name)]
            picture.append((name, time.monotonic() if at_work else 0, rows))
        return picture

    def _rows(self, actor: str) -> list[dict[str, Any]]:
        """The machines of an actor; none where it is down."""
        try:
            rows: list[dict[str, Any]] = self.fleet.client(actor).get("leases")
        except ClientError:
            return []
        return rows

    def logs(self) -> dict[str, list[bytes]]:
        """Returns, by actor, its events as the lines of a file, from its store; nobody has signed their end.

        Of actors that were ended, those that were there then.
        """
        return self._ended or {name: [*open_source(self.fleet.store(name), name).lines(0)] for name in self.fleet.roles}

    def stop(self) -> None:
        """Ends all actors, and removes what they kept, but for their events."""
        self.fleet.stop()
        with suppress(StoreError):
            self._ended = self.logs()
        shutil.rmtree(self.fleet.folder, ignore_errors=True)


class ProcessSystem(Processes[SystemFleet]):
    """Any system as processes, with SQLite and HTTP.

    Its methods are those of `EmbeddedSystem` (faults/simulation/embedded.py).

    Args:
        system: a shipped system, or the folder of one.
        settings: constants of the specification.
        tick_seconds: of the clock.
        options: of the fleet.
    """

    def __init__(
        self, system: str, settings: Mapping[str, Any] | None = None, tick_seconds: float = 0.25, **options: Any
    ) -> None:
        folder = Path(tempfile.mkdtemp(prefix="leasehold-"))
        super().__init__(SystemFleet(str(system), folder, settings, tick_seconds, **options))
        self._last = self.fleet.program.only_run

    def begin(self, machine: str, event: str, /, **fields: Any) -> str:
        """A client begins a run at a machine; returns its name."""
        client = self._client(machine)
        self._last = client.post("begin", machine=machine, event=event, fields=fields)["lease"]
        self.settle()
        return self._last

    def tell(self, machine: str, event: str, /, run: str | None = None, **fields: Any) -> None:
        """A client's event for a machine; of the last run that was begun, where none is named.

        Where a subsidiary machine, such as `unit[0]`, belongs to its actor, the run is of no interest.
        """
        client = self._client(machine)
        if self.fleet.program.machines[machine][0].of_actor:
            client.post("units", machine, "tell", event=event, fields=fields)
        else:
            client.post("leases", run or self._last, "tell", machine=machine, event=event, fields=fields)
        self.settle()

    def _client(self, machine: str) -> Client:
        """A client of the actor that plays a machine."""
        return self.fleet.client(self.fleet.program.player_of(machine, self.fleet.players))

    def state(self, machine: str, run: str | None = None) -> str | None:
        """The state of a machine; None where its actor has none, or is down."""
        return None if (row := self._row(machine, run)) is None else row["state"]

    def data(self, machine: str, run: str | None = None) -> dict[str, Any]:
        """The fields of a machine."""
        row = self._row(machine, run)
        if row is None:
            raise LookupError(f"no {machine} of {run or self._last} is there")
        fields: dict[str, Any] = row["data"]
        return fields

    def _row(self, machine: str, run: str | None) -> dict[str, Any] | None:
        core, _ = self.fleet.program.machines[machine]
        client, run = self._client(machine), run or self._last
        try:
            rows = client.get("units") if core.subsidiary else client.get("leases", run)
        except ClientError:
            return None
        return next((row for row in rows if row["machine"] == machine and (core.of_actor or row["lease"] == run)), None)
