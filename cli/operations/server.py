"""The server of the operations page: sessions, what is shown, and actions with their audit."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from leasehold.cli.leases import lease_order
from leasehold.cli.operations.access import PageAccess, PageSession, same_secret
from leasehold.cli.operations.actions import ACTIONS, known_leases, known_units
from leasehold.cli.operations.audit import AuditTrail
from leasehold.cli.operations.violations import FollowedActors
from leasehold.cli.operations.watch import MOST, ActorWatch, ExplainedSystems, watched_places
from leasehold.impl.server.client import Unreachable
from leasehold.reports.live.page_server import PageServer
from leasehold.reports.page import html_page

KEY_HEADER = "X-Leasehold-Page"
PLACES_SECONDS = 2.0  # between two looks for other actors
GATHER_SECONDS = 0.3  # in which changes are told together
SCRIPTS = ("dom.js", "calendar.js", "operations.js")
STYLES = ("style.css", "operations.css")
OTHERWISE = "`leasehold leases`, `units`, `explain` and `verify --follow` say the same without it."


class OperationsServer(PageServer):
    """Serves the operations page of the actors at places.

    Args:
        at: the places.
        port: where to listen; 0: any free one.
        audit: is told of each action.
        say: is told the address of the next session, once another has begun.

    Attributes:
        access: the sessions.

    Raises:
        Unreachable: there is no actor.
    """

    def __init__(self, at: Sequence[Path], port: int, audit: AuditTrail, say: Callable[[str], None]) -> None:
        super().__init__(port)
        self.at, self.audit, self.say = at, audit, say
        self.access = PageAccess()
        self.watches: dict[Path, ActorWatch] = {}
        self.followed = FollowedActors(at, self._note)
        self._systems = ExplainedSystems()
        self._numbers = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._look_for_actors()

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/", self._page), web.get("/state", self._show), web.post("/act", self._act)]

    @property
    def names(self) -> set[str]:
        """The names of the actors, as far as they are known."""
        return {str(watch.view["name"]) for watch in self.watches.values()}

    @property
    def entrance(self) -> str:
        """The address at which the next session begins."""
        return f"{self.url}?token={self.access.token}"

    async def start(self) -> None:
        await super().start()
        self._loop = asyncio.get_running_loop()
        for watch in self.watches.values():
            watch.start()
        self.followed.start()
        self._looking = self._loop.create_task(self._look())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        ending: list[ActorWatch | FollowedActors] = []
        if self._loop is not None:
            ending = [*self.watches.values(), self.followed]
        for one in ending:
            one.end()
        for one in ending:
            await asyncio.to_thread(one.join)
        await super().close()

    # Who may ask

    def admit(self, request: web.Request) -> None:
        if request.method == "GET" and request.path == "/" and "token" in request.query:
            return  # it is exchanged there, or refused
        session = self._session(request)
        if request.method in ("GET", "HEAD"):
            return
        if request.headers.get("Origin") != f"http://{request.headers['Host']}":
            raise web.HTTPForbidden(text="actions are taken from the page itself alone, and not from another origin\n")
        if not same_secret(request.headers.get(KEY_HEADER, ""), session.key):
            raise web.HTTPForbidden(text=f"actions need the page's own key ({KEY_HEADER}); load the page again\n")

    def _session(self, request: web.Request) -> PageSession:
        session = self.access.session(request.cookies.get(self._cookie, ""))
        if session is None:
            raise web.HTTPUnauthorized(text="this page needs a session: open the address that was printed\n")
        return session

    @property
    def _cookie(self) -> str:
        """The cookie's name; cookies of all ports of a machine lie together."""
        return f"leasehold_{self.port}"

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if "token" in request.query:
            session = self.access.begin(request.query["token"])
            if session is None:
                raise web.HTTPForbidden(text="this token is wrong, or has begun a session already\n")
            self.say(f"session {session.number} has begun; another begins at {self.entrance}")
            entered = web.Response(status=303, headers={"Location": "/"})
            entered.set_cookie(self._cookie, session.cookie, httponly=True, samesite="Strict", path="/")
            return entered
        session = self._session(request)
        values = {"key": session.key, "session": session.number, "user": self.audit.user, "state": self.state()}
        text = html_page("Leasehold: operations", values, STYLES, SCRIPTS, OTHERWISE, connects="'self'")
        return web.Response(text=text, content_type="text/html")

    # The actors

    def _look_for_actors(self) -> list[ActorWatch]:
        """Watches the actors that have come, too; returns their watches."""
        come = []
        for place in watched_places(self.at):
            path = place.path.absolute()
            if path not in self.watches:
                self.watches[path] = ActorWatch(place, self._systems, self._note)
                come.append(self.watches[path])
        return come

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(PLACES_SECONDS)
            try:
                for watch in self._look_for_actors():
                    watch.start()
            except (Unreachable, OSError):
                continue  # those that were there are watched on

    def _note(self) -> None:
        """Something has changed, in a thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._gather)

    def _gather(self) -> None:
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._tell_all)

    def _tell_all(self) -> None:
        self._waiting = None
        self.tell({"changed": "state"})

    async def _show(self, request: web.Request) -> web.Response:
        return web.json_response(self.state("over" in request.query))

    def state(self, over: bool = False) -> dict[str, Any]:
        """All that the page shows.

        Args:
            over: whether leases that are over are shown, too.
        """
        views = self._views()
        rows = [row for view in views for row in view.get("rows", ())]
        by_lease: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            by_lease.setdefault(row["lease"], []).append(row)
        shown = {row["lease"] for row in rows if over or not row["over"]}
        first = sorted(shown, key=lease_order)[-MOST:]
        return {
            "at": [str(place) for place in self.at],
            "time": time.time(),
            "actors": [
                {name: v for name, v in view.items() if name not in ("rows", "waits", "units")} for view in views
            ],
            "leases": [_lease(lease, by_lease[lease]) for lease in first],
            "lease_count": len(shown),
            "over_count": len(by_lease) - len({row["lease"] for row in rows if not row["over"]}),
            "leased": any(view.get("takes_demands") for view in views),
            "units": [unit for view in views for unit in view.get("units", ())],
            "waits": [wait for view in views for wait in view.get("waits", ())],
            "verified": self.followed.view,
        }

    def _views(self) -> list[dict[str, Any]]:
        return sorted((watch.view for watch in self.watches.values()), key=lambda view: str(view["name"]))

    # Actions

    async def _act(self, request: web.Request) -> web.Response:
        session = self._session(request)
        try:
            asked = await request.json()
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            asked = None
        if not isinstance(asked, dict) or not all(isinstance(asked.get(name), str) for name in ("action", "target")):
            raise web.HTTPBadRequest(text="an action is {action, target}\n")
        action, target, views = asked["action"], asked["target"], self._views()
        if action not in ACTIONS:
            raise web.HTTPBadRequest(text=f"the actions are {' and '.join(ACTIONS)}\n")
        if target not in known_leases(views) | (known_units(views) if action == "recover" else set()):
            raise web.HTTPNotFound(text="no actor here has shown a lease or unit of this name\n")
        number = next(self._numbers)
        try:
            await asyncio.to_thread(self.audit.write, number, session.number, action, target, "intended")
        except OSError as error:
            why = error.strerror or error
            raise web.HTTPServiceUnavailable(text=f"nothing was done: the audit cannot be written: {why}\n") from None
        result = await asyncio.to_thread(ACTIONS[action], target, views)
        answer = {"outcome": result.outcome, "words": result.words, "unwritten": ""}
        try:
            await asyncio.to_thread(self.audit.write, number, session.number, action, target, *result)
        except OSError as error:
            answer["unwritten"] = f"the outcome could not be written to the audit: {error.strerror or error}"
            self.say(f"action {number}: {answer['unwritten']}; it was: {result.outcome}: {result.words}")
        return web.json_response(answer)


def _lease(lease: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    cells: dict[str, str] = {}
    for row in rows:
        cells[row["actor"]] = f"{cells[row['actor']]}, {row['text']}" if row["actor"] in cells else row["text"]
    return {"lease": lease, "over": all(row["over"] for row in rows), "cells": cells}
