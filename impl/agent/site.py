"""The handler of a site whose units are on other hosts: it asks the agents there, by the controller of the site.

    handler: {name: agents, controller: controller.sock, repository: packages}

Theory of operation (paper, section 4.3.2). The controller is an actor of the system `agent`, on the site's machine; it
remembers what was asked for, and the protocol sees to it that the last action counts, whoever crashes. Each unit has
one run, CONTROLLER:NUMBER, by its number at the site, begun with the agent of the host that its property `host` names.
An action that the site repeats after a crash is another one, whose end is waited for. A unit that is lost on its host
is found there, by the probes of its agent, and the controller is told.

The repository says which version acts (`leasehold package use`), and which does where that one is refused: what a host
refuses never reaches a lease.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from leasehold.impl.agent.host import asked
from leasehold.impl.agent.package import PackageError, current
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, NotBegun, Stale
from leasehold.impl.handlers.threads import in_thread
from leasehold.impl.server.client import Client, ClientError, NotFound, Unreachable

MACHINE, AGENT = "controller", "agent"
LOOK_SECONDS, LONGEST_LOOK = 0.05, 1.0


class AgentHandler:
    """The handler.

    Args:
        controller: the control socket of the controller.
        repository: the folder of the packages.
        limit_seconds: for which the controller may be silent.
    """

    verbs = ("setup", "modify", "teardown")

    def __init__(self, controller: str, repository: str, limit_seconds: float = 10.0) -> None:
        self._controller, self._repository, self._limit = Path(controller), Path(repository), limit_seconds
        self._threads = ThreadPoolExecutor(16, "agents")
        self._name = ""
        self._runs: dict[str, str] | None = None  # by unit; None: not read yet
        self._reading = threading.Lock()  # several threads may be the first

    async def act(self, action: HandlerAction) -> Done:
        """Has the unit's agent act, and waits until it has.

        Raises:
            NotBegun: the controller does not answer at this moment.
            Stale: the unit has seen a newer action.
            HandlerError: it cannot be asked for.
        """
        await self._call(self._ask, action)
        pause = LOOK_SECONDS
        while True:
            data = await self._call(self._data, action.unit)
            number = (data.get("what") or {}).get("number", 0)
            if number > action.number:
                raise Stale(f"{action.unit} has seen action {number}, and this is {action.number}")
            if number == action.number and data["state"] != "asking":
                return _done(data, action.verb)
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, LONGEST_LOOK)

    async def is_up(self, unit: str) -> bool | None:
        """Returns whether the unit's agent says that it is up; None while it acts, or was asked for nothing.

        Raises:
            NotBegun, HandlerError: the controller does not answer.
        """
        state = (await self._call(self._data, unit))["state"]
        return {"up": True, "down": False}.get(state)

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        data = await self._call(self._data, unit)
        return (
            {"host": data["host"], "version": data["used"], **(data["facts"] or {})} if data["state"] == "up" else None
        )

    async def close(self) -> None:
        self._threads.shutdown(wait=False)

    async def _call(self, function: Any, *arguments: Any) -> Any:
        try:
            return await in_thread(self._threads, function, *arguments)
        except Unreachable as error:
            raise NotBegun(f"the controller does not answer: {error}") from None
        except ClientError as error:
            raise HandlerError(f"the controller: {error}") from None

    def _run(self, client: Client, index: int) -> str:
        self._name = self._name or str(client.get("about")["name"])
        return f"{self._name}:{index + 1}"

    def _ask(self, action: HandlerAction) -> None:
        """Tells the controller what is wanted; the same that is told again is another action."""
        try:
            chosen = current(self._repository)
        except PackageError as error:
            raise HandlerError(str(error)) from None
        if chosen is None:
            raise HandlerError(f"no version of {self._repository} was chosen; `leasehold package use` chooses one")
        client = Client(self._controller, self._limit)
        run, host = self._run(client, action.index), action.properties.get("host")
        if not isinstance(host, str) or not host:
            raise HandlerError(f"the unit {action.unit} has no property `host`, which names the agent of its host")
        fields = {
            "verb": action.verb,
            "version": chosen.version,
            "fallback": chosen.before,
            "what": asked(action),
        }
        self._known(client)[action.unit] = run
        try:
            client.post("leases", run, "tell", event="ask", machine=MACHINE, fields=fields)
        except NotFound:
            client.post("begin", machine=MACHINE, event="ask", fields=fields, peers={AGENT: host}, lease=run)

    def _known(self, client: Client) -> dict[str, str]:
        """The runs of units, as the controller has them since before this handler was made."""
        with self._reading:
            if self._runs is None:
                rows = (row for row in client.get("leases") if row["data"].get("what"))
                self._runs = {row["data"]["what"]["unit"]: row["lease"] for row in rows}
        return self._runs

    def _data(self, unit: str) -> dict[str, Any]:
        """The controller's record of a unit; without a state where nothing was asked for yet."""
        client = Client(self._controller, self._limit)
        if (run := self._known(client).get(unit)) is None:
            return {"state": ""}
        (row,) = client.get("leases", run)
        return {
            **row["data"],
            "state": row["state"],
            "host": (row["data"]["what"] or {}).get("properties", {}).get("host"),
        }


def _done(data: Mapping[str, Any], verb: str) -> Done:
    """The end of an action, as the controller was told."""
    facts, up = data["facts"] or {}, data["state"] == "up"
    if not data["well"] or up != (verb != "teardown"):
        return Done(False, str(data["reason"] or "the unit was lost"))
    words = str(facts.get("words", ""))
    if verb != "teardown" and data["used"] != data["version"]:
        words = f"version {data['version']} was refused, and version {data['used']} has acted; {words}".rstrip("; ")
    return Done(True, words, dict(facts.get("facts", {})), properties=dict(facts.get("properties", {})))
