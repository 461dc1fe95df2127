"""A cluster of three processes, with the words of the one in this process: for integration tests.

Time is real here, in short ticks, and counted from the beginning of the cluster; `advance` waits.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from leasehold.impl.fleet import ROLES, SITE, TENANT, Fleet
from leasehold.impl.server.client import ClientError

SETTLED_SECONDS, LIMIT_SECONDS, LOOK_SECONDS = 0.4, 60.0, 0.05


class ProcessCluster:
    """A service manager (`tenant`), a broker and a site as processes, with SQLite, HTTP and units that are processes.

    Args:
        units: of the site.
        tick_seconds: of the clock.
        options: of the fleet (impl/fleet.py).
    """

    def __init__(self, units: int = 4, tick_seconds: float = 0.25, **options: Any) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="leasehold-"))
        self.fleet = Fleet(self._folder, units, tick_seconds, **options)
        try:
            self.fleet.__enter__()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._begin = int(time.time() / tick_seconds)

    @property
    def now(self) -> int:
        """The clock, in ticks since the cluster began."""
        return int(time.time() / self.fleet.tick_seconds) - self._begin

    def lease(self, units: int, until: int, term: int = 10) -> str:
        """Asks for units until a time, renewed in terms of so many ticks; answers the lease's name."""
        found = self.fleet.client(TENANT).post("demand", units=units, until=until + self._begin, term=term)
        self.settle()
        lease: str = found["lease"]
        return lease

    def flex(self, lease: str, units: int) -> None:
        """Wants another number of units, as soon as the lease can be extended."""
        self.fleet.client(TENANT).post("leases", lease, "flex", units=units, soon=True)
        self.settle()

    def close(self, lease: str) -> None:
        """Ends a lease, in whatever state it is."""
        self.fleet.client(TENANT).post("leases", lease, "tell", event="close")
        self.settle()

    def advance(self, ticks: int = 1) -> None:
        """Waits for so many ticks."""
        until = (self._begin + self.now + ticks) * self.fleet.tick_seconds
        time.sleep(max(0.0, until - time.time()))
        self.settle()

    def crash(self, actor: str, restart: bool = True) -> None:
        """Ends an actor (`tenant`, `broker`, `site`) as `kill -9` does, and starts it again."""
        self.fleet.kill(actor)
        if restart:
            self.restart(actor)

    def restart(self, actor: str) -> None:
        """Starts an actor that was crashed."""
        self.fleet.start(actor)
        self.fleet.await_ready(actor)
        self.settle()

    def state(self, lease: str) -> dict[str, str | None]:
        """The state of the lease's machine at each role; None where it has none, or its actor is down."""
        found: dict[str, str | None] = dict.fromkeys(ROLES.values())
        for actor, role in ROLES.items():
            try:
                machines = self.fleet.client(actor).get("leases", lease)
            except ClientError:
                continue
            found[role] = machines[0]["state"]
        return found

    def units(self) -> set[str]:
        """The units of the site that are up: whose process runs."""
        return {place.folder.name for place in self.fleet.unit_places() if place.alive()}

    def settle(self) -> None:
        """Waits until nothing has moved for a moment, and no handler is at work.

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
                raise TimeoutError(f"the cluster does not come to rest within {LIMIT_SECONDS:.0f} s")

    def _picture(self) -> list[Any]:
        """What must stay as it is for the cluster to be at rest."""
        found: list[Any] = []
        for name in ROLES:
            about = self.fleet.about(name)
            if about is None:
                found.append(None)
                continue
            at_work = time.monotonic() if about["handlers_at_work"] and name == SITE else 0
            try:
                leases = self.fleet.client(name).get("leases")
            except ClientError:
                leases = []
            found.append((at_work, [(row["lease"], row["state"], row["data"]) for row in leases]))
        return found

    def stop(self) -> None:
        """Ends all actors and units, and removes what they kept."""
        self.fleet.stop()
        self.fleet.end_units()
        shutil.rmtree(self._folder, ignore_errors=True)
