"""A client of actors' control sockets (impl/server/control.py), for the command line, tests and scripts."""

from __future__ import annotations

import errno
import http.client
import json
import os
import random
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from leasehold.impl.server import config
from leasehold.impl.words import did_you_mean

PLACES = "name the socket of an actor, a folder of them, or a configuration"


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
    """

    def __init__(self, path: Path, limit_seconds: float = 30.0) -> None:
        self.path, self._limit = path, limit_seconds

    def get(self, *place: str) -> Any:
        """The actor's answer about a place: `get("leases", "tenant:1")`.

        Raises:
            ClientError: it says no, or does not answer.
        """
        return self._ask("GET", place, None)

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
        connection = _UnixConnection(self.path, self._limit)
        where = "/" + "/".join(quote(part, safe=":") for part in place) + (f"?{urlencode(query)}" if query else "")
        body = None if given is None else json.dumps({name: v for name, v in given.items() if v is not None})
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # who sends us away may have said why
                connection.request(method, where, body)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            kind = Silent if isinstance(error, BlockingIOError | TimeoutError) else Unreachable
            raise kind(f"no actor answers at {self.path}: {reason}; {_hint(error)}") from None
        finally:
            connection.close()
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
