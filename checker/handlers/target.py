"""A handler under test: how it is named, and an incarnation of an actor that has it.

Theory of operation. An incarnation is a process of its own: a crash is a real one. It takes commands as lines of JSON
from a socket, makes the handler anew as an actor does at its start, and begins actions side by side.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leasehold.checker.handlers.sequence import CHANGE, DOWN, UP
from leasehold.impl import files
from leasehold.impl.handlers.handler import (
    Handler,
    HandlerAction,
    HandlerError,
    SaysWhatIsUp,
    checked,
)
from leasehold.impl.policy import plugins
from leasehold.impl.policy.verified import digest_of
from leasehold.impl.server.config import handler_parts

SITE = ("setup", "modify", "teardown")


@dataclass(frozen=True)
class HandlerTarget:
    """A handler with its settings.

    Attributes:
        given: as the user named it.
        parts: a plug-in's name and settings for each verb, where verbs have different ones; `*` for all others.
        folder: where its relative paths begin.
        verbs: that are tried.
        data: the record of the lease that actions are given.
        properties: of a unit.
        modified: of them, those that a unit has otherwise once it was modified.
        answers: of an action.
    """

    given: str
    parts: Mapping[str, tuple[str, dict[str, Any]]]
    folder: str
    verbs: tuple[str, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    answers: tuple[str, ...] = ()
    modified: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Identifies what was tried: settings, and the bytes of all files that they name."""
        return digest_of(self.parts, self.folder)

    def make(self) -> dict[str, Handler]:
        """The handler of each verb, made anew.

        Raises:
            PluginError, HandlerError: it cannot be had.
        """
        made = {verb: plugins.make("handler", name, settings) for verb, (name, settings) in self.parts.items()}
        return {verb: made[verb] if verb in made else made["*"] for verb in self.verbs}


def target_of(
    given: str,
    verbs: tuple[str, ...] = (),
    data: Mapping[str, Any] | None = None,
    properties: Mapping[str, Any] | None = None,
    answers: tuple[str, ...] = (),
    modified: Mapping[str, Any] | None = None,
) -> HandlerTarget:
    """A handler as it is named on a command line.

    Args:
        given: an executable, which is asked for a probe if that word stands in it; a file of Python, perhaps with
            `:NAME`; a YAML file with a handler, or with an actor's configuration; or a name as in a configuration,
            perhaps with settings behind commas.
        verbs: that are tried; left out: those that it names, or those of a site.
        data: the record of the lease that actions are given.
        properties: of each unit.
        answers: of an action; the last means failure.
        modified: properties that `modify` gives each unit.

    Raises:
        HandlerError, PluginError: it is none of these.
    """
    path, folder = Path(given), os.getcwd()
    parts: dict[str, tuple[str, dict[str, Any]]]
    if path.suffix in (".yaml", ".yml"):
        parts, folder = _configured(path), str(path.resolve().parent)
    elif path.is_file() and path.suffix != ".py":
        if not os.access(path, os.X_OK):
            raise HandlerError(f"{given} is not executable; do `chmod +x {given}`, or name a .py or .yaml file")
        asked = (*(verbs or SITE), *(("probe",) if b"probe" in path.read_bytes() else ()))
        lines: dict[str, Any] = {verb: [f"./{path.name}", verb] for verb in asked}
        parts, folder = {"*": ("command", {"directory": "units", **lines})}, str(path.resolve().parent)
    else:
        name, settings = plugins.written(given)
        if name.partition(":")[0].endswith(".py"):
            file, colon, inner = name.partition(":")
            if not Path(file).is_file():
                raise HandlerError(f"there is no file {file[:200]}")
            folder, name = str(Path(file).resolve().parent), f"./{Path(file).name}{colon}{inner}"
        parts = {"*": (name, settings)}
    target = HandlerTarget(given, parts, folder, verbs, data or {}, properties or {}, answers, modified or {})
    return target if verbs else replace(target, verbs=_own_verbs(target))


def _configured(path: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """The handlers of a file: of an actor's configuration, or one that stands there alone."""
    try:
        content = files.read_yaml(path)
    except files.Unreadable as error:
        raise HandlerError(str(error)) from None
    if not isinstance(content, Mapping) or not content.keys() & {"handler", "handlers", "name"}:
        raise HandlerError(f"{path}: has neither `handler`, `handlers` nor the `name` of a handler")
    if content.keys() & {"handler", "handlers"}:
        return handler_parts(content.get("handler", ""), content.get("handlers", {}))
    return handler_parts(dict(content), {})


def _own_verbs(target: HandlerTarget) -> tuple[str, ...]:
    """The verbs that a handler names; a process of its own asks it, as it may be anybody's code."""
    named = [verb for verb in target.parts if verb != "*"]
    if "*" not in target.parts:
        return tuple(named)
    before = os.getcwd()
    os.chdir(target.folder)
    try:
        name, settings = target.parts["*"]
        if name == "command":
            own = tuple(str(key) for key in settings if key not in ("directory", "environment", "probe"))
        else:
            loaded = plugins.find("handler", name).load()
            tasks = getattr(loaded, "args", ())
            own = tuple(tasks[0]) if tasks and isinstance(tasks[0], dict) and tasks[0] else SITE
    finally:
        os.chdir(before)
    known = {verb: n for n, verb in enumerate((*UP, *CHANGE, *DOWN))}
    return tuple(sorted({*own, *named}, key=lambda verb: known.get(verb, 99)))


# The incarnation


def live(channel: socket.socket, target: HandlerTarget) -> None:
    """An actor's life: it never returns."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL if number != signal.SIGPIPE else signal.SIG_IGN)
    code = 0
    try:
        asyncio.run(_serve(channel, target))
    except BaseException as error:
        with suppress(OSError):
            channel.setblocking(True)
            channel.sendall(json.dumps({"broken": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        code = 1
    os._exit(code)


async def _serve(channel: socket.socket, target: HandlerTarget) -> None:
    loop = asyncio.get_running_loop()
    channel.setblocking(False)
    handlers, tasks, kept = target.make(), dict[int, asyncio.Task[None]](), b""
    await _tell(loop, channel, {"ready": os.getpid()})
    while True:
        chunk = await loop.sock_recv(channel, 1 << 16)
        if not chunk:
            return
        *lines, kept = (kept + chunk).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "cancel" in said:
                tasks[said["cancel"]].cancel()
                tasks[-said["cancel"]] = loop.create_task(_cancelled(loop, channel, tasks, said["cancel"]))
            elif "probe" in said:
                tasks[said["id"]] = loop.create_task(_probe(loop, channel, handlers, said))
            else:
                tasks[said["id"]] = loop.create_task(_act(loop, channel, handlers, said))


async def _act(
    loop: asyncio.AbstractEventLoop, channel: socket.socket, handlers: Mapping[str, Handler], said: Mapping[str, Any]
) -> None:
    given = said["action"]
    try:
        done = checked(
            await handlers[given["verb"]].act(HandlerAction(**{**given, "answers": tuple(given["answers"])}))
        )
        failed = bool(done.answer) and bool(given["answers"]) and done.answer == given["answers"][-1]
        result = {
            "well": done.well and not failed,
            "words": done.words,
            "told": {**done.facts, **done.properties, **done.fields},
            "properties": done.properties,
        }
    except asyncio.CancelledError:
        result = {"well": False, "words": "cancelled", "told": {}}
    except Exception as error:
        result = {"well": False, "words": f"{type(error).__name__}: {error}", "told": {}}
    await _tell(loop, channel, {"id": said["id"], **result})


async def _cancelled(
    loop: asyncio.AbstractEventLoop, channel: socket.socket, tasks: Mapping[int, asyncio.Task[None]], number: int
) -> None:
    """Tells of an action that was cancelled before it had begun, which says nothing itself."""
    await asyncio.wait([tasks[number]])
    if tasks[number].cancelled():
        await _tell(loop, channel, {"id": number, "well": False, "words": "cancelled", "told": {}})


async def _probe(
    loop: asyncio.AbstractEventLoop, channel: socket.socket, handlers: Mapping[str, Handler], said: Mapping[str, Any]
) -> None:
    """Asks handlers as an actor does (impl/actor/probes.py): the first that knows says it."""
    up, words = None, ""
    for handler in dict.fromkeys(handlers.values()):
        if up is None and isinstance(handler, SaysWhatIsUp):
            try:
                up = await handler.is_up(said["probe"])
            except Exception as error:
                words = f"{type(error).__name__}: {error}"
    await _tell(loop, channel, {"id": said["id"], "up": up, "words": words})


async def _tell(loop: asyncio.AbstractEventLoop, channel: socket.socket, value: Mapping[str, Any]) -> None:
    # Whole lines, one behind another: the socket's buffer is far larger than a line.
    await loop.sock_sendall(channel, json.dumps(value, default=str).encode() + b"\n")


def quiet(log: str) -> None:
    """Sends what a handler prints to a file of the harness's own."""
    sys.stdout.flush()
    sys.stderr.flush()
    nothing, written = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, number in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(source, number)
    for source in {nothing, written} - {0, 1, 2}:
        os.close(source)
