"""The server of the live page: one page, JSON about positions, and a stream of what has changed.

It listens on this machine alone. A page of another origin can neither read its answers (there is no CORS header) nor
reach it by a name of its own: a request has to name the address that the server has (`Host`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from leasehold.reports.live.background import BackgroundSearch, SearchOrder
from leasehold.reports.live.session import LiveSystem
from leasehold.reports.page import html_page

LOOK_SECONDS = 0.25  # between two looks at the files
LONGEST = 10_000  # steps of a trail
SCRIPTS = (
    "dom.js",
    "search.js",
    "layout.js",
    "graph.js",
    "sequence.js",
    "properties.js",
    "roles.js",
    "product.js",
    "stepper.js",
    "live.js",
)
STYLES = ("style.css", "stepper.css")
OTHERWISE = "`leasehold explore` and `leasehold report` say the same without it."


class LiveServer:
    """Serves the live page of a system.

    Attributes:
        port: at which it listens, once it is started.

    Args:
        live: the system.
        order: what is explored beside the walk; None: nothing.
        port: where to listen; 0: any free one.
    """

    def __init__(self, live: LiveSystem, order: SearchOrder | None, port: int) -> None:
        self.live, self.order, self.port = live, order, port
        self._search: BackgroundSearch | None = None
        self._progress: dict[str, Any] = {"phase": "off" if order is None else "waiting"}
        self._found: dict[str, Any] | None = None
        self._listeners: set[asyncio.Queue[str]] = set()
        self._runner: web.AppRunner | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to listen, to look at the files, and to explore.

        Raises:
            OSError: the port is taken.
        """
        app = web.Application(middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/system", self._system),
                web.get("/at", self._at),
                web.get("/found", self._what_was_found),
                web.get("/changes", self._changes),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        listening = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await listening.start()
        self.port = self._runner.addresses[0][1]
        self._explore()
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        """Ends all of it."""
        if self._watching is not None:
            self._watching.cancel()
        if self._search is not None:
            self._search.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.port}/"

    # The files, and the search

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.live.changed():
                await asyncio.sleep(LOOK_SECONDS)  # an editor may write several files
                self.live.read()
                self._tell({"changed": "system", "version": self.live.version})
                self._explore()

    def _explore(self) -> None:
        if self._search is not None:
            self._search.stop()
        self._found = None
        system = self.live.system
        if self.order is None or system is None or any(d.severity == "error" for d in self.live.diagnostics):
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
            self._tell({"changed": "found", "version": version})
        else:
            self._progress = told
            self._tell({"changed": "progress", "progress": told})

    def _tell(self, words: Mapping[str, Any]) -> None:
        for listener in self._listeners:
            listener.put_nowait(json.dumps(words))

    # Requests

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Refuses whoever reached this server by another name, as a page of another origin may make a browser do."""
        if request.headers.get("Host") not in {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}:
            raise web.HTTPForbidden(text=f"this server answers at {self.url} alone\n")
        response: web.StreamResponse = await handler(request)
        if not response.prepared:
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Cache-Control"] = "no-store"
        return response

    async def _page(self, request: web.Request) -> web.Response:
        title = f"{self.live.name}: Leasehold"
        text = html_page(title, self._state(), STYLES, SCRIPTS, OTHERWISE, connects="'self'")
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

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: the files were read again, the search goes on, or has found something."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        listener: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.add(listener)
        try:
            await response.write(f"data: {json.dumps({'changed': 'hello', 'version': self.live.version})}\n\n".encode())
            while True:
                await response.write(f"data: {await listener.get()}\n\n".encode())
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._listeners.discard(listener)
        return response
