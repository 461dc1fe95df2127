"""The transport for many machines: frames as requests through a NATS server.

An actor listens on one subject, and its address is `nats://server:4222/SUBJECT`. A request carries one frame and is
answered with one reply; the server keeps nothing, so the actor sends lost frames again. A server reports at once that
nobody listens on a subject. It does not report the source of a request: strangers are distinguished by their inbox for
answers, which a client can change at will; the server's accounts decide who may publish.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from leasehold.impl.transport import framing
from leasehold.impl.transport.lanes import SendingEnd
from leasehold.impl.transport.limits import LIMITS, SparseLog, TransportLimits
from leasehold.impl.transport.reception import Reception
from leasehold.impl.transport.transport import Delivery, Receive, Reply, TransportError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

_log = logging.getLogger(__name__)
_SUBJECT = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_LONGEST_SUBJECT = 200
_MOST_SERVERS = 50
_PROBE = b""  # no frame is empty


class NatsTransport(SendingEnd):
    """Listens on one subject of one server, and sends to any subject of any server."""

    def __init__(
        self,
        address: str,
        *,
        limits: TransportLimits = LIMITS,
        login: Mapping[str, str] | None = None,
        connect_seconds: float = 5,
    ) -> None:
        """A transport that is not started yet.

        Args:
            address: the subject to listen on.
            limits: what strangers are granted.
            login: what our own server wants to see: `user` and `password`, `token`, or `user_credentials` (a file).
            connect_seconds: within which a server must answer.

        Raises:
            TransportError: the address is none.
        """
        place = _place(address)
        if place is None:
            raise TransportError(f"{address[:200]!r} is no NATS address; one is written nats://host:4222/some.subject")
        self._server, self._subject = place
        super().__init__(limits)
        self._connect_seconds, self._login = connect_seconds, dict(login or {})
        self._reception: Reception | None = None
        self._clients: dict[str, asyncio.Task[Client]] = {}
        self._listening: Subscription | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._sparse = SparseLog(_log)

    async def start(self, receive: Receive) -> str:
        self._closed = False
        try:
            client = await self._client(self._server)
            await self._check_free(client)
            self._reception = Reception(receive, self._limits)
            self._listening = await client.subscribe(self._subject, cb=self._came)
            await client.flush()  # the server knows the subject before anybody is told of it
        except TransportError:
            await self.close()
            raise
        except Exception as error:
            await self.close()
            raise TransportError(f"{self._server} does not let us listen on {self._subject}: {error!r}") from error
        return f"{self._server}/{self._subject}"

    async def _send(self, address: str, frame: bytes) -> Reply:
        place = _place(address)
        if place is None:
            reason = f"{address[:200]!r} is no address of this transport; one is written nats://host:4222/some.subject"
            return Reply(Delivery.UNREACHABLE, reason)
        return await self._answer_of(self._request(*place, frame))

    async def close(self) -> None:
        self._end_sending()
        if self._listening is not None:  # the server says to others at once that nobody is here
            listening, self._listening = self._listening, None
            with contextlib.suppress(Exception):  # the connection may be down, and then the server knows
                async with asyncio.timeout(self._limits.close_seconds):
                    await listening.drain()  # type: ignore[no-untyped-call]
        if self._reception is not None:
            await self._reception.close()
            if self._answering:  # the last answers go out before the connection does
                await asyncio.wait(self._answering, timeout=self._limits.close_seconds)
        clients, self._clients, self._reception = self._clients, {}, None
        for connecting in clients.values():
            connecting.cancel()
            try:
                client = await connecting
                async with asyncio.timeout(self._limits.close_seconds):
                    await client.close()
            except (asyncio.CancelledError, Exception) as error:
                _log.debug("a connection to NATS was not closed in order: %r", error)

    async def _request(self, server: str, subject: str, frame: bytes) -> Reply:
        try:
            client = await self._client(server)
        except TransportError as error:
            return Reply(Delivery.UNREACHABLE, str(error))
        from nats.errors import MaxPayloadError, NoRespondersError

        try:
            if not client.is_connected:
                raise ConnectionError("the connection to the server is down")
            answer = await client.request(subject, frame, timeout=self._limits.send_seconds)
            return framing.unpack_replies(answer.data, 1)[0]
        except NoRespondersError:
            return Reply(Delivery.UNREACHABLE, f"nobody listens on {subject}")
        except MaxPayloadError:
            return Reply(Delivery.REFUSED, f"the frame has {len(frame)} bytes, and {server} carries less")
        except Exception as error:
            reason = f"no answer from {server}/{subject}: {str(error) or type(error).__name__}"
            self._sparse.warning(time.monotonic(), "unreachable", "%s", reason)
            return Reply(Delivery.UNREACHABLE, reason)

    async def _came(self, message: Msg) -> None:
        """A request came. It is answered by a task of its own, so that the next need not wait."""
        reception = self._reception
        if reception is None or not message.reply:
            return
        if len(self._answering) >= self._limits.receiving:
            await self._answer(message, Reply(Delivery.BUSY, "too much is being received at the moment"))
            return
        task = asyncio.get_running_loop().create_task(self._take(reception, message))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _take(self, reception: Reception, message: Msg) -> None:
        if message.data == _PROBE:
            await self._answer(message, Reply(Delivery.REFUSED, "a frame is not empty"))
            return
        peer = message.reply.rpartition(".")[0]
        await self._answer(message, await reception.take(message.data, peer))

    async def _answer(self, message: Msg, reply: Reply) -> None:
        try:
            await message.respond(framing.pack_replies((reply,)))
        except Exception as error:
            self._sparse.warning(time.monotonic(), "answer", "an answer could not be sent: %r", error)

    async def _check_free(self, client: Client) -> None:
        """Checks whether nobody answers on the subject: NATS would give every request to both."""
        from nats.errors import NoRespondersError

        try:
            await client.request(self._subject, _PROBE, timeout=1)
        except (NoRespondersError, TimeoutError):
            return  # one that listens and does not answer is gone, and the server has not noticed yet
        raise TransportError(
            f"{self._server}/{self._subject} is in use; stop the actor that listens there, or choose another subject"
        )

    async def _client(self, server: str) -> Client:
        """The connection to a server, made when it is first needed, and made again by itself when it is lost."""
        connecting = self._clients.get(server)
        if connecting is None and len(self._clients) >= _MOST_SERVERS:
            raise TransportError(f"this actor has connections to {_MOST_SERVERS} servers, and makes no more")
        if connecting is None or (connecting.done() and (connecting.cancelled() or connecting.exception())):
            connecting = self._clients[server] = asyncio.get_running_loop().create_task(self._connect(server))
        return await asyncio.shield(connecting)

    async def _connect(self, server: str) -> Client:
        try:
            from nats.aio.client import Client
        except ImportError as error:
            raise TransportError("NATS needs the package nats-py; run: pip install 'leasehold[nats]'") from error

        async def failed(error: Exception) -> None:
            self._sparse.warning(time.monotonic(), "nats", "the connection to %s: %r", server, error)

        login: dict[str, Any] = dict(self._login) if server == self._server else {}  # nobody else's server is told
        client = Client()
        try:
            async with asyncio.timeout(self._connect_seconds):
                await client.connect(
                    server,
                    error_cb=failed,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=1,
                    allow_reconnect=True,
                    **login,
                )
        except (Exception, asyncio.CancelledError) as error:
            await client.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            reason = f"there is no NATS server at {server}, or it does not let us in: {str(error) or 'no answer'}"
            raise TransportError(reason) from error
        return client


def _place(address: str) -> tuple[str, str] | None:
    """The server and the subject of an address; None where it is none."""
    try:
        parts = urlsplit(address)
        subject, port = parts.path.removeprefix("/"), parts.port or 4222
    except ValueError:
        return None
    good = parts.scheme == "nats" and parts.hostname and "@" not in address and not (parts.query or parts.fragment)
    if not good or len(subject) > _LONGEST_SUBJECT or not _SUBJECT.fullmatch(subject):
        return None
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return f"nats://{host}:{port}", subject
