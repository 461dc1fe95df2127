"""A server for pages on this machine: who may ask it, and a stream of what has changed.

It listens on this machine alone. A page of another origin can neither read its answers (there is no CORS header) nor
reach it by a name of its own: a request has to name the address that the server has (`Host`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

LARGEST = 16 * 1024  # bytes of a request
# Nothing is kept or taken for something else; no other page has this one in a frame, or learns its address.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PageServer:
    """Serves a page on this machine alone, with a stream of what changes.

    Attributes:
        port: at which it listens, once it is started.

    Args:
        port: where to listen; 0: any free one.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._listeners: set[asyncio.Queue[str]] = set()
        self._runner: web.AppRunner | None = None

    def routes(self) -> list[web.RouteDef]:
        """Returns what is answered besides the stream."""
        raise NotImplementedError

    def greeting(self) -> dict[str, Any]:
        """The first words to whoever listens for changes."""
        return {"changed": "hello"}

    def admit(self, request: web.Request) -> None:
        """Refuses who may not ask; a page that asks for no session lets everybody in who has come by its address.

        Raises:
            web.HTTPException: with the reason.
        """

    async def start(self) -> None:
        """Begins to listen.

        Raises:
            OSError: the port is taken.
        """
        app = web.Application(client_max_size=LARGEST, middlewares=[self._guard])
        app.add_routes([*self.routes(), web.get("/changes", self._changes)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        listening = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await listening.start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Ends all of it."""
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.port}/"

    def tell(self, words: Mapping[str, Any]) -> None:
        """Tells all who listen that something has changed."""
        for listener in self._listeners:
            listener.put_nowait(json.dumps(words))

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Refuses whoever reached this server by another name, as a page of another origin may make a browser do."""
        if request.headers.get("Host") not in {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}:
            raise web.HTTPForbidden(text=f"this server answers at {self.url} alone\n")
        self.admit(request)
        response: web.StreamResponse = await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events, each with what has changed."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        listener: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.add(listener)
        try:
            await response.write(f"data: {json.dumps(self.greeting())}\n\n".encode())
            while True:
                await response.write(f"data: {await listener.get()}\n\n".encode())
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._listeners.discard(listener)
        return response
