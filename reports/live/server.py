"""The server of the live page: one page, JSON about positions, and a search beside it."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from leasehold.reports.live.background import BackgroundSearch, SearchOrder
from leasehold.reports.live.page_server import PageServer
from leasehold.reports.live.session import LiveSystem
from leasehold.reports.page import STYLES, WALK_SCRIPTS, html_page

LOOK_SECONDS = 0.25  # between two looks at the files
LONGEST = 10_000  # steps of a trail
OTHERWISE = "`leasehold explore` and `leasehold report` say the same without it."


class LiveServer(PageServer):
    """Serves the live page of a system.

    Args:
        live: the system.
        order: what is explored beside the walk; None: nothing.
        port: where to listen; 0: any free one.
    """

    def __init__(self, live: LiveSystem, order: SearchOrder | None, port: int) -> None:
        super().__init__(port)
        self.live, self.order = live, order
        self._search: BackgroundSearch | None = None
        self._progress: dict[str, Any] = {"phase": "off" if order is None else "waiting"}
        self._found: dict[str, Any] | None = None
        self._watching: asyncio.Task[None] | None = None

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._page),
            web.get("/system", self._system),
            web.get("/at", self._at),
            web.get("/found", self._what_was_found),
        ]

    def greeting(self) -> dict[str, Any]:
        return {"changed": "hello", "version": self.live.version}

    async def start(self) -> None:
        """Begins to listen, to look at the files, and to explore."""
        await super().start()
        self._explore()
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        if self._search is not None:
            self._search.stop()
        await super().close()

    # The files, and the search

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if await asyncio.to_thread(self.live.changed):  # many files, or a slow disk
                await asyncio.sleep(LOOK_SECONDS)  # an editor may write several files
                self.live.read()
                self.tell({"changed": "system", "version": self.live.version})
                self._explore()

    def _explore(self) -> None:
        if self._search is not None:
            self._search.stop()
        self._found = None
        system = self.live.system
        wrong = self.live.trouble or any(d.severity == "error" for d in self.live.diagnostics)
        if self.order is None or system is None or wrong:
            return
        loop, version = asyncio.get_running_loop(), self.live.version
        self._progress = {"phase": "building"}

        def tell(told: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(self._hear, version, told)

        self._search = BackgroundSearch(self.order, tell)

    def _hear(self, version: int, told: dict[str, Any]) -> None:
        if version != self.live.version:
            return
        if "properties" in told:
            self._found = told
            self.tell({"changed": "found", "version": version})
        else:
            self._progress = told
            self.tell({"changed": "progress", "progress": told})

    # Requests

    async def _page(self, request: web.Request) -> web.Response:
        title = f"{self.live.name}: Leasehold"
        text = html_page(title, self._state(), STYLES, (*WALK_SCRIPTS, "live.js"), OTHERWISE, connects="'self'")
        return web.Response(text=text, content_type="text/html")

    async def _system(self, request: web.Request) -> web.Response:
        return web.json_response(self._state())

    def _state(self) -> dict[str, Any]:
        return self.live.json() | {"progress": self._progress}

    async def _at(self, request: web.Request) -> web.Response:
        trail = [key for key in request.query.get("trail", "").split(".") if key]
        since = request.query.get("since", "0")
        if len(trail) > LONGEST or not since.isdecimal() or len(since) > 6:
            raise web.HTTPBadRequest(text=f"`trail` has at most {LONGEST} steps, and `since` is a number\n")
        try:
            return web.json_response(self.live.at(trail, int(since)))
        except LookupError as error:
            raise web.HTTPConflict(text=f"{error}\n") from None

    async def _what_was_found(self, request: web.Request) -> web.Response:
        return web.json_response(self._found)
