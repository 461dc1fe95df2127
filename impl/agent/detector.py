"""The detector of a site whose units are on other hosts: it hears whether the agent of each host is there.

    raises: {unit: [lost, repaired]}
    detectors:
      hosts: {name: agents, trust: trust.yaml, controller: controller.sock}

Theory of operation (paper, section 5.4). The probe of a unit on a host is its agent's, and the site knows what the
agent has said last; of an agent that says nothing it knows nothing, and takes its units for up. So each agent is asked
for a sign of life (impl/identity/alive.py), at the address that the trust set has. One that gives none for so long
takes its units with it: `lost` is raised on each, the site sets it up again, which waits for the agent, and replaces it
when the time of the handler is over. For a host that is only cut off that is too much; it costs its guests a while.

A unit that was given up so is quarantined, as nobody has heard that it was torn down. When its agent is back, it does
what it was asked for last; once the controller has heard that the unit is torn down well, `repaired` is raised, which
an operator would have to say otherwise. The memory of who was silent ends with the site's process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.handlers.threads import in_thread
from leasehold.impl.identity import alive
from leasehold.impl.identity.trust import TrustFault
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.raised import RaisedEvent
from leasehold.impl.server.client import Client, ClientError

log = logging.getLogger("leasehold.detectors")

LOST, REPAIRED = "lost", "repaired"


@dataclass(slots=True)
class WatchedHost:
    """A host.

    Attributes:
        units: its units, by name.
        heard: when its agent has given its last sign of life; at first, when it was asked first.
        silent: for whom `lost` was raised.
        unsure: units that were lost with it, and are perhaps torn down since.
    """

    units: list[str]
    heard: float
    silent: bool = False
    unsure: frozenset[str] = frozenset()


class AgentDetector:
    """The detector.

    Args:
        inventory: the site's units, whose property `host` names the agent of each.
        trust: the file of the agents' addresses and keys.
        controller: the control socket of the controller; empty: nothing is raised when an agent is back.
        every_seconds: how often each is asked.
        silent_seconds: after which without a sign of life its units are taken for lost.
        longest_seconds: for which one answer is awaited.
    """

    def __init__(
        self,
        inventory: Inventory | None,
        trust: str,
        controller: str = "",
        every_seconds: float = 2.0,
        silent_seconds: float = 10.0,
        longest_seconds: float = 2.0,
    ) -> None:
        if not 0 < every_seconds <= silent_seconds or not longest_seconds > 0:
            raise HandlerError(
                "every_seconds and longest_seconds are above 0, and silent_seconds is not below every_seconds"
            )
        self._trust, self._controller = TrustFile(Path(trust)), controller
        self._every, self._silent, self._longest = every_seconds, silent_seconds, longest_seconds
        self._units: dict[str, list[str]] = {}
        if inventory is not None:
            for n in range(len(inventory)):
                if isinstance(host := inventory.properties(n).get("host"), str):
                    self._units.setdefault(host, []).append(str(inventory.name(n)))
        if not self._units:
            raise HandlerError("no unit has the property `host`, which names the agent of its host")

    async def watch(self) -> AsyncIterator[RaisedEvent]:
        """Yields `lost` for units of an agent that is silent, and `repaired` for those that it has torn down since."""
        hosts = {name: WatchedHost(units, time.monotonic()) for name, units in self._units.items()}
        timeout = aiohttp.ClientTimeout(total=self._longest)
        threads = ThreadPoolExecutor(1, "agent-detector")
        # A connection that is kept may lead to a host that has another's address since.
        connector = aiohttp.TCPConnector(force_close=True)
        try:
            async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
                while True:
                    began = time.monotonic()
                    answers = await asyncio.gather(*(self._ask(session, name) for name in hosts))
                    for (name, host), why in zip(hosts.items(), answers, strict=True):
                        for raised in self._judge(name, host, why):
                            yield raised
                    if self._controller and any(host.unsure and not host.silent for host in hosts.values()):
                        rows = await in_thread(threads, self._rows)
                        for host in hosts.values():
                            for raised in self._torn_down(host, rows):
                                yield raised
                    await asyncio.sleep(max(0.0, began + self._every - time.monotonic()))
        finally:
            threads.shutdown(wait=False)

    async def _ask(self, session: aiohttp.ClientSession, name: str) -> str:
        """Returns why an agent has given no sign of life; empty: it has."""
        challenge = alive.drawn()
        try:
            trust = self._trust.current()
            address = trust.find(name).address.rstrip("/")
            async with session.get(f"{address}{alive.PLACE}/{challenge}", allow_redirects=False) as response:
                body = await response.content.read(alive.LARGEST)
        except TrustFault as error:
            return str(error)
        except TimeoutError:
            return f"no answer within {self._longest:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return str(error) or type(error).__name__
        return alive.refused(name, challenge, body, trust)

    def _judge(self, name: str, host: WatchedHost, why: str) -> Iterator[RaisedEvent]:
        now = time.monotonic()
        if not why:
            if host.silent:
                log.warning("the agent of %s is back after %.1f s", name, now - host.heard)
            host.heard, host.silent = now, False
        elif not host.silent and now - host.heard >= self._silent:
            host.silent, host.unsure = True, frozenset(host.units)
            reason = f"the agent of {name} has given no sign of life for {now - host.heard:.1f} s: {why}"
            yield from (RaisedEvent(LOST, unit=unit, reason=reason) for unit in host.units)

    def _rows(self) -> dict[str, dict[str, Any]]:
        """The controller's records, by unit."""
        with suppress(ClientError):
            rows = Client(Path(self._controller), self._longest).get("leases")
            return {row["data"]["what"]["unit"]: row for row in rows if row["data"].get("what")}
        return {}

    @staticmethod
    def _torn_down(host: WatchedHost, rows: dict[str, dict[str, Any]]) -> Iterator[RaisedEvent]:
        for unit in host.unsure if not host.silent else ():
            row = rows.get(unit)
            if row is None or row["state"] not in ("up", "down"):
                continue
            host.unsure -= {unit}
            if row["state"] == "down" and row["data"]["verb"] == "teardown" and row["data"]["well"]:
                yield RaisedEvent(REPAIRED, unit=unit, reason="its agent is back, and has torn it down")
