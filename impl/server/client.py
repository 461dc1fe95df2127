"""A client of actors' control sockets (impl/server/control.py), for the command line, tests and scripts."""

from __future__ import annotations

import errno
import http.client
import itertools
import json
import os
import random
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.request import ClientRequest, digest_of, write
from leasehold.impl.server import config
from leasehold.impl.words import did_you_mean

PLACES = "name the socket of an actor, a folder of them, or a configuration"


_acting: list[PrivateKey] = []  # the keys with which this process asks, the last one counts


@contextmanager
def acting_as(key: PrivateKey) -> Iterator[None]:
    """Clients that are made meanwhile sign what they ask with a key."""
    _acting.append(key)
    try:
        yield
    finally:
        _acting.remove(key)


class ClientError(Exception):
    """The actor said no, or nobody answers. In the first case nothing has changed."""


class NotFound(ClientError):
    """The actor has nothing of this name."""


class Unreachable(ClientError):
    """Nobody answers: what was asked for may have happened or not."""


class Silent(Unreachable):
    """The actor's process is there and does not answer: it was stopped (SIGSTOP), hangs, or has too much to do."""


class Client:
    """Talks to one actor.

    Args:
        path: its control socket.
        limit_seconds: how long it waits for an answer.
        key: with which it signs what it asks, where the actor wants that; left out: the one of `acting_as`.
    """

    def __init__(self, path: Path, limit_seconds: float = 30.0, key: PrivateKey | None = None) -> None:
        self.path, self._limit = path, limit_seconds
        self._key = key or (_acting[-1] if _acting else None)
        self._challenge: dict[str, Any] = {}
        self._numbers = itertools.count(1)

    def get(self, *place: str, **query: str) -> Any:
        """The actor's answer about a place: `get("leases", "tenant:1")`, `get("query", of="east")`.

        Raises:
            ClientError: it says no, or does not answer.
        """
        return self._ask("GET", place, None, query)

    def post(self, *place: str, **given: Any) -> Any:
        """Asks for something: `post("demand", units=2, until=100, term=10)`.

        Raises:
            ClientError: it says no, or does not answer.
        """
        return self._ask("POST", place, given)

    def read(self, *place: str, **query: str) -> bytes:
        """Returns what the actor says about a place that is no JSON: `read("events", after="17")`.

        Raises:
            ClientError: it says no, or does not answer.
        """
        content = self._ask("GET", place, None, query)
        return content if isinstance(content, bytes) else b""

    def _ask(
        self, method: str, place: tuple[str, ...], given: dict[str, Any] | None, query: dict[str, str] | None = None
    ) -> Any:
        where = "/" + "/".join(quote(part, safe=":") for part in place) + (f"?{urlencode(query)}" if query else "")
        body = b"" if given is None else json.dumps({name: v for name, v in given.items() if v is not None}).encode()
        fresh = not self._challenge
        response, content = self._send(method, where, body, self._signed(method, where, body))
        if response.status == 401 and not fresh:  # the challenge is over, and nothing has happened
            self._challenge = {}
            response, content = self._send(method, where, body, self._signed(method, where, body))
        return _answer(response, content)

    def _signed(self, method: str, where: str, body: bytes) -> dict[str, str]:
        """The header with the signature of a request, for an actor that wants one."""
        if self._key is None:
            return {}
        if not (asked := self._challenge):
            response, content = self._send("GET", "/challenge", b"", {})
            asked = self._challenge = _answer(response, content)
        if not asked["challenge"]:
            return {}
        request = ClientRequest(
            actor=asked["actor"],
            challenge=asked["challenge"],
            number=next(self._numbers),
            method=method,
            target=where,
            content=digest_of(body),
        )
        return {"Authorization": write(request, self._key)}

    def _send(
        self, method: str, where: str, body: bytes, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = _UnixConnection(self.path, self._limit)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # who sends us away may have said why
                connection.request(method, where, body or None, headers)
            response = connection.getresponse()
            return response, response.read()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            kind = Silent if isinstance(error, BlockingIOError | TimeoutError) else Unreachable
            raise kind(f"no actor answers at {self.path}: {reason}; {_hint(error)}") from None
        finally:
            connection.close()


def _answer(response: http.client.HTTPResponse, content: bytes) -> Any:
    plain = response.getheader("Content-Type", "").partition(";")[0] == "application/json"
    answer = json.loads(content) if plain else content
    if response.status != 200:
        reason = answer.get("error") if isinstance(answer, dict) else None
        refusal = NotFound if response.status == 404 else ClientError
        raise refusal(reason or f"the actor answered with status {response.status}")
    return answer


def _hint(error: Exception) -> str:
    """Returns what may be the matter with an actor that does not answer."""
    if isinstance(error, PermissionError):
        return "its user alone may open it"
    if isinstance(error, BlockingIOError | TimeoutError):
        return "it is there, and was stopped or has too much to do"
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        return "this client lacks something, and has not asked"
    return "is it running?"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, limit_seconds: float) -> None:
        super().__init__("actor", timeout=limit_seconds)
        self._path, self._limit = path, limit_seconds

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        # A socket's path has 107 bytes at most, and folders may lie deep.
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)

    def _connect(self, place: str) -> None:
        """Connects; where too many others are about to do so, it waits for its turn."""
        deadline, pause = time.monotonic() + self._limit, 0.01
        while True:
            try:
                self.sock.connect(place)
                return
            except BlockingIOError:
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, 0.5)


def sockets(at: Path) -> list[Path]:
    """The control sockets at a place: a socket, the configuration of an actor, or a folder of sockets.

    Raises:
        Unreachable: there is none.
    """
    if at.is_dir():
        paths = sorted(path for path in at.iterdir() if path.suffix == ".sock" and path.is_socket())
        if not paths:
            raise Unreachable(f"there is no socket of an actor in {at}; {PLACES}")
        return paths
    if at.is_socket():
        return [at]
    if at.is_file():
        try:
            return [at.parent / config.read_config(at).socket]
        except config.ConfigError as error:
            raise Unreachable(str(error)) from None
    raise Unreachable(f"there is nothing at {at}{near_file(at)}; {PLACES}")


def near_file(at: Path) -> str:
    """`; did you mean X?` for the nearest name in the same folder, or nothing."""
    try:
        return did_you_mean(at.name, [path.name for path in at.parent.iterdir()])
    except OSError:
        return ""
