"""The actors of a system as processes, for integration tests, with the methods of those in one process.

Theory of operation. Time is a file of the fleet's folder, which the test moves tick by tick: at each the actors are
asked to look, one after another, and then awaited until they are at rest. They are when each is idle and has no message
on its way to another that runs and can be reached, and none has done anything between two looks: a message is on its
way until its receiver has committed it, so nothing can hide between actors. With a length for the tick, time is real.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from leasehold.impl import files
from leasehold.impl.core.core import Program
from leasehold.impl.driven import DrivenActors
from leasehold.impl.processes.fleet import FleetError, SystemFleet
from leasehold.impl.server.client import Client, ClientError, Unreachable
from leasehold.impl.server.event_source import open_source
from leasehold.impl.store.store import StoreError
from leasehold.spec import System

LIMIT_SECONDS, LOOK_SECONDS = 60.0, 0.005  # of actors that come to rest
CLOCK = "clock"  # the file of the folder with the tick
AnyFleet = TypeVar("AnyFleet", bound=SystemFleet)


class FleetLinks(Protocol):
    """The network between the processes of a fleet, as it can be cut."""

    def part(self, links: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """Cuts links, each of a sender and a receiver; returns what opens them again."""
        ...

    def close(self) -> None: ...


def with_clock(more: Mapping[str, Any] | None, tick_seconds: float | None) -> dict[str, Any]:
    """Returns the further keys of a fleet's configurations; without a length of the tick its clock is a file."""
    return {**({} if tick_seconds else {"clock": {"file": CLOCK}}), **(more or {})}


class Processes(DrivenActors, Generic[AnyFleet]):
    """The processes of a fleet in a folder of their own, which `stop` removes.

    Args:
        fleet: not started yet.
        by_hand: time is the file `CLOCK` of its folder; else it is real, and `advance` waits.
        links: makes the network between the actors, so that they can be parted; left out: they cannot.
    """

    def __init__(self, fleet: AnyFleet, by_hand: bool, links: Callable[[AnyFleet], FleetLinks] | None = None) -> None:
        self.fleet, self._ended = fleet, dict[str, list[bytes]]()
        self._by_hand, self._hand, self._links = by_hand, 0, None
        self._parted: Counter[tuple[str, str]] = Counter()
        try:
            if by_hand:
                self._write_clock()
            if links is not None:
                self._links = links(fleet)
            fleet.__enter__()
        except BaseException:
            self._remove()
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
    def names(self) -> Iterable[str]:
        """The names of the actors."""
        return self.fleet.roles

    @property
    def tick(self) -> int:
        """The tick of the actors' clocks, as their events have it."""
        return self._hand if self._by_hand else int(time.time() / self.fleet.tick_seconds)

    @property
    def now(self) -> int:
        """The clock, in ticks since the actors began."""
        return self.tick - self._begin

    def advance(self, ticks: int = 1) -> None:
        """Moves the clock tick by tick, until nothing is left to do at each; where time is real it waits."""
        if self._by_hand:
            for _ in range(ticks):
                self._hand += 1
                self._write_clock()
                for name in self.fleet.roles:
                    with suppress(Unreachable):  # it is down
                        self.fleet.client(name).post("clock")
                self.settle()
        else:
            until = (self._begin + self.now + ticks) * self.fleet.tick_seconds
            time.sleep(max(0.0, until - time.time()))
            self.settle()

    def _write_clock(self) -> None:
        files.replace(self.fleet.folder / CLOCK, str(self._hand).encode(), 0o600)

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
        """Waits until no actor has anything to do, and who is up and can be reached has its messages.

        Raises:
            TimeoutError: it goes on and on.
        """
        deadline, before = time.monotonic() + LIMIT_SECONDS, None
        while (now := self._rest()) is None or now != before:
            before = now
            time.sleep(LOOK_SECONDS)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the actors do not come to rest within {LIMIT_SECONDS:.0f} s")

    def _rest(self) -> dict[str, Any] | None:
        """Returns, by actor that is up, the counts of all that it has done; None while one has something to do."""
        up = {name: about for name in self.fleet.roles if (about := self.fleet.about(name))}
        for name, about in up.items():
            reached = {other for other in up if not self._parted[name, other]}
            if not about["idle"] or not reached.isdisjoint(about["messages_on_their_way"]):
                return None
        return {name: (about["epoch"], about["counts"]) for name, about in up.items()}

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
        self._remove()

    def _remove(self) -> None:
        if self._links is not None:
            self._links.close()
        shutil.rmtree(self.fleet.folder, ignore_errors=True)

    def _part(self, links: frozenset[tuple[str, str]]) -> Callable[[], None]:
        if self._links is None:
            raise FleetError("these actors have no links that can be cut; start them with `links`")
        heal = self._links.part(links)
        self._parted.update(links)

        def join() -> None:
            heal()
            self._parted.subtract(links)
            self.settle()

        return join


class ProcessSystem(Processes[SystemFleet]):
    """Any system as processes, with SQLite and HTTP.

    Its methods are those of `EmbeddedSystem` (faults/simulation/embedded.py).

    Args:
        system: a shipped system, or the folder of one.
        settings: constants of the specification.
        tick_seconds: of a real clock; left out: the test moves it.
        more: further keys of every configuration.
        links: as `Processes` takes it.
        options: of the fleet.
    """

    def __init__(
        self,
        system: str,
        settings: Mapping[str, Any] | None = None,
        tick_seconds: float | None = None,
        more: Mapping[str, Any] | None = None,
        links: Callable[[SystemFleet], FleetLinks] | None = None,
        **options: Any,
    ) -> None:
        folder, more = Path(tempfile.mkdtemp(prefix="leasehold-")), with_clock(more, tick_seconds)
        fleet = SystemFleet(str(system), folder, settings, tick_seconds or 1.0, more=more, **options)
        super().__init__(fleet, not tick_seconds, links)
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
