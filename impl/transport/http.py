"""The transport between processes: frames by HTTP, aiohttp at both ends.

`POST /parcels` carries one or more frames (impl/transport/framing.py) and answers a reply for each; `GET /health` says
that the actor is there. An actor may serve other routes of its own (its clients, its metrics) on the same port. A
request that is refused as a whole has a status of its own: 400 no frames, 404 and 405 another place or method, 408 too
slow, 413 too large, 429 too often refused.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from leasehold.impl.transport import framing
from leasehold.impl.transport.guard import GuardedServer
from leasehold.impl.transport.lanes import SendingEnd, SendQueue
from leasehold.impl.transport.limits import LIMITS, Connection, SparseLog, TokenBucket, TransportLimits
from leasehold.impl.transport.reception import Reception
from leasehold.impl.transport.transport import Delivery, Receive, Reply, TransportError

_log = logging.getLogger(__name__)
_CONTENT = {"Content-Type": "application/octet-stream"}
_WILDCARDS = ("", "0.0.0.0", "::")
_MOST_LANES = 1000  # idle lanes are dropped beyond this, or addresses that once were would gather


class HttpTransport(SendingEnd):
    """Listens on one port, and sends to any address."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        advertise: str = "",
        limits: TransportLimits = LIMITS,
        routes: Iterable[web.AbstractRouteDef] = (),
        server_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
    ) -> None:
        """A transport that is not started yet.

        Args:
            host: where to listen; `0.0.0.0` or `::` for everywhere.
            port: 0: any that is free.
            advertise: the address to tell others, where it is not the one listened on.
            limits: what strangers are granted.
            routes: what else is served on the port.
            server_tls: with it, https is served.
            client_tls: how the certificates of others are judged, and ours is shown; None: as the system does.
        """
        super().__init__(limits)
        if host in _WILDCARDS and not advertise:
            raise TransportError(
                f"listening on {host or 'every address'} needs `advertise`: the address that others can reach, "
                "as in http://this-host:8470"
            )
        self._host, self._port, self._advertise = host, port, advertise.rstrip("/")
        self._routes = tuple(routes)
        self._server_tls, self._client_tls = server_tls, client_tls
        self._reception: Reception | None = None
        self._server: GuardedServer | None = None
        self._session: aiohttp.ClientSession | None = None
        self._lanes: dict[str, SendQueue] = {}
        self._sparse = SparseLog(_log)

    async def start(self, receive: Receive) -> str:
        self._reception = Reception(receive, self._limits)
        app = web.Application(client_max_size=self._limits.body, middlewares=[self._watched])
        app.router.add_post("/parcels", self._frames)
        app.router.add_get("/health", _health)
        app.router.add_routes(self._routes)
        self._server = GuardedServer(
            app,
            self._reception,
            logger=_framework_log,
            shutdown_timeout=self._limits.close_seconds,
            auto_decompress=False,  # what is small must not become large here
        )
        try:
            listening = await self._server.start(
                (self._host or None, self._port),
                ssl=self._server_tls,
                ssl_handshake_timeout=self._limits.header_seconds if self._server_tls else None,
            )
        except (OSError, OverflowError) as error:
            self._reception = self._server = None
            raise TransportError(_cannot_listen(error, self._host, self._port)) from error
        self._closed = False
        port = listening.sockets[0].getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        return self._advertise or f"{'https' if self._server_tls else 'http'}://{host}:{port}"

    async def _send(self, address: str, frame: bytes) -> Reply:
        lane = self._lanes.get(address)
        if lane is None:
            url = _place(address)
            if url is None:
                reason = f"{address[:200]!r} is no address of this transport; one is written http://host:port"
                return Reply(Delivery.UNREACHABLE, reason)
            if len(self._lanes) >= _MOST_LANES:
                self._lanes = {a: queue for a, queue in self._lanes.items() if not queue.idle}
            lane = self._lanes[address] = SendQueue(lambda frames: self._post(url, frames), self._limits)
        return await lane.send(frame)

    async def close(self) -> None:
        self._end_sending()
        if self._server is not None:
            self._server.listen_no_more()
        for lane in tuple(self._lanes.values()):
            await lane.close()
        self._lanes.clear()
        if self._reception is not None:
            await self._reception.close()
        if self._server is not None:
            await self._server.close()
        if self._session is not None:
            await self._session.close()
        self._server = self._reception = self._session = None

    async def _post(self, url: str, frames: list[bytes]) -> list[Reply]:
        """One request; its replies, or the same for all where it came to nothing."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, limit_per_host=self._limits.in_flight, ssl=self._client_tls or True
                ),
                timeout=aiohttp.ClientTimeout(total=self._limits.send_seconds),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        try:
            async with self._session.post(
                url, data=framing.pack(frames), headers=_CONTENT, allow_redirects=False
            ) as response:
                if response.status == 200:
                    content = await _bounded(response, framing.LARGEST_REPLY * len(frames))
                    return framing.unpack_replies(content, len(frames))
                status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError, framing.FrameError, ValueError) as error:
            reason = f"no answer from {url}: {str(error) or type(error).__name__}"
            self._sparse.warning(time.monotonic(), "unreachable", "%s", reason)
            return [Reply(Delivery.UNREACHABLE, reason)] * len(frames)
        if status == 413 and len(frames) > 1:  # the other side takes less at once than we: perhaps one by one
            return [(await self._post(url, [frame]))[0] for frame in frames]
        reason = f"{url} answered with status {status}"
        answer = {413: Delivery.REFUSED, 429: Delivery.BUSY, 503: Delivery.BUSY}.get(status, Delivery.UNREACHABLE)
        self._sparse.warning(time.monotonic(), f"status {status}", "%s", reason)
        return [Reply(answer, reason)] * len(frames)

    @web.middleware
    async def _watched(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Every request passes here: one to no place of ours counts as refused."""
        assert self._reception is not None
        if request.match_info.http_exception is not None:
            reason = f"{request.method} {request.path[:100]!r} is nothing here"
            self._reception.refused(self._connection(request), reason)
        return await handler(request)

    async def _frames(self, request: web.Request) -> web.Response:
        assert self._reception is not None
        reception, connection = self._reception, self._connection(request)
        if (seconds := reception.wait(connection)) > 0:
            message, after = (
                "too much of what came from you was refused; wait\n",
                {"Retry-After": str(int(seconds) + 1)},
            )
            return web.Response(status=429, text=message, headers=after)  # a new connection could try a frame
        try:
            if (request.content_length or 0) > self._limits.body:
                raise web.HTTPRequestEntityTooLarge(self._limits.body, request.content_length or 0)
            async with asyncio.timeout(self._limits.body_seconds):
                body = await request.read()
            frames = framing.unpack(body, self._limits.batch)
        except TimeoutError:
            status, reason = 408, "the body of the request did not come in time"
        except web.HTTPRequestEntityTooLarge:
            status, reason = 413, f"the body of the request has more than {self._limits.body} bytes"
        except (framing.FrameError, aiohttp.ClientPayloadError, web.RequestPayloadError) as error:
            status, reason = 400, str(error)
        else:
            replies = await reception.take_all(frames, connection)
            return web.Response(body=framing.pack_replies(replies), content_type="application/json")
        reception.refused(connection, reason)
        return _no(status, reason)

    def _connection(self, request: web.Request) -> Connection:
        assert self._server is not None
        guard = self._server.guards.by_transport.get(request.transport) if request.transport is not None else None
        return guard.connection if guard is not None else Connection(request.remote or "")


async def _health(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


def _no(status: int, reason: str) -> web.Response:
    response = web.Response(status=status, text=reason + "\n")
    response.force_close()
    return response


def _place(address: str) -> str | None:
    """Returns where frames for an address are posted; None where it is none."""
    try:
        parts = urlsplit(address)
        plain = parts.port != 0 and "@" not in parts.netloc and not (parts.query or parts.fragment)
    except ValueError:
        return None
    good = plain and parts.scheme in ("http", "https") and parts.hostname and address.isprintable()
    return address.rstrip("/") + "/parcels" if good else None


async def _bounded(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body of an answer.

    Raises:
        FrameError: it is larger than any good answer.
    """
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > most:
            raise framing.FrameError(f"the answer has more than {most} bytes")
    return bytes(content)


def _cannot_listen(error: Exception, host: str, port: int) -> str:
    where = f"{host or '*'}:{port}"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"{where} is in use; stop what listens there, or choose another port (0 takes any that is free)"
    if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
        return f"{where} is no address of this machine; listen on one that is, and `advertise` the one others use"
    return f"nothing can listen on {where}: {getattr(error, 'strerror', None) or error}"


_framework_log = logging.getLogger(f"{__name__}.framework")
_bucket = TokenBucket(1, 10, time.monotonic())  # bounds what the web framework logs of requests that strangers spoilt
_framework_log.addFilter(lambda record: _bucket.take(time.monotonic()))
