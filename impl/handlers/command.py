"""A handler that runs an executable: one command line for each verb.

    setup: /opt/site/node up
    teardown: [/opt/site/node, down, --force]
    probe: /opt/site/node ask

Theory of operation. The command reads the action as JSON from standard input, and its main parts from environment
variables (LEASEHOLD_VERB, LEASEHOLD_LEASE, LEASEHOLD_UNIT, LEASEHOLD_TASK, LEASEHOLD_INCARNATION, LEASEHOLD_NUMBER,
LEASEHOLD_TERM_END, LEASEHOLD_INDEX, LEASEHOLD_TYPE, LEASEHOLD_PROPERTIES). Exit code 0 means success. The last line of
output may be a JSON object with facts about the unit; in it, `answer` names the event by which the task ends, `fields`
has the event's fields by name, `properties` what the holder of the lease is told of the unit, such as its address, and
`raises` lists events that it raises on this unit or on others (impl/raised.py). All other output goes to the log. A
probe ends with 0 if the unit is up, and with 1, 2 or 3 if it is not, as init scripts do at `status`; any other exit
code, or a signal, means that it cannot say. It has the variables of the last action on the unit, where there is a
`directory`.

An action that is cancelled, because of its time limit or a newer action, is killed with its process group and waited
for. An actor that dies leaves its executable running. With a `directory` the executable, and every process that it
starts, holds a lock there while it runs. So the next incarnation finds and kills it, and no two are ever at work on one
unit. The directory also has the number of the newest action, and older actions are refused; for what a holder runs on a
unit it is known by the unit's site and name, and by the fence that the site has told, so that an action for a lease
that is over does nothing to the guest of the next one. A process that is to stay
in the background should close its open files and begin a session, as daemons do. Without a `directory` the executable
has to do both checks itself, with the number.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from leasehold.impl import descriptors, files
from leasehold.impl.handlers import processes
from leasehold.impl.handlers.child import run_program
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, NotBegun, ended
from leasehold.impl.handlers.place import folder_name, read_file, want, write_file
from leasehold.impl.handlers.threads import in_thread

PROBE = "probe"
NOT_UP = (1, 2, 3)  # exit codes of a probe
LOCK = "LEASEHOLD_LOCK"
TOLD = "told.json"  # the variables of a unit's newest action that has begun
LONGEST_PAUSE = 1.0  # seconds between two looks at a lock that somebody holds
GUARD_LIMIT = 10.0  # seconds for which another process may write an action down
THREADS = 8  # that start programs and take locks

log = logging.getLogger("leasehold.command")


class CommandHandler:
    """The handler.

    Args:
        directory: of locks and numbers, with a folder for each unit or lease; empty: there are none.
        environment: variables for the commands, beside the actor's own.
        verbs: the command line of each verb that the specification calls, as text or as a list of words; and of
            `probe`. An action without one fails.
    """

    def __init__(
        self, *, directory: str | Path = "", environment: Mapping[str, str] | None = None, **verbs: str | Sequence[str]
    ) -> None:
        if not verbs:
            raise HandlerError("there is no command; name one for each verb, as in `setup: /opt/site/node up`")
        self._commands = {verb: _words(verb, line) for verb, line in verbs.items()}
        self.verbs = tuple(verb for verb in verbs if verb != PROBE)
        self._directory = Path(directory) if directory else None
        self._environment = dict(environment or {})
        self._threads = ThreadPoolExecutor(THREADS, "command-handler")

    async def act(self, action: HandlerAction) -> Done:
        """Runs the command of an action.

        Raises:
            Stale: the unit has seen a newer action.
            HandlerError: there is no such command, or it cannot be started.
            NotBegun: the system lacks what it takes, at this moment.
        """
        if action.verb not in self._commands:
            raise HandlerError(f"there is no command for {action.verb}; name one, or `{action.verb}: /bin/true`")
        lock = await self._lock(action) if self._directory else None
        try:
            code, output, errors = await self._run(action.verb, _told(action), _variables(action), lock)
        finally:
            if lock is not None:
                os.close(lock)
        facts, text = _read(output)
        answer, fields, properties = facts.pop("answer", ""), facts.pop("fields", {}), facts.pop("properties", {})
        raises = facts.pop("raises", ())
        if code:
            last_lines = errors.strip().splitlines()[-1:] or text.strip().splitlines()[-1:] or ["nothing"]
            return Done(
                False,
                f"{action.verb} ended with {_code(code)}; it said: {last_lines[0][:500]}",
                facts,
                answer,
                fields,
                raises=raises,
            )
        return Done(True, text.strip()[-500:], facts, answer, fields, properties, raises)

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        """The facts that the command `probe` prints about a unit; None also without such a command."""
        if PROBE not in self._commands:
            return None
        code, output, _ = await self._probe(unit)
        return None if code else _read(output)[0]

    async def is_up(self, unit: str) -> bool | None:
        """Returns what the exit code of the command `probe` says; None without such a command.

        Raises:
            HandlerError: it could not be started, or has failed.
        """
        if PROBE not in self._commands:
            return None
        code, output, errors = await self._probe(unit)
        if code and code not in NOT_UP:
            last_line = (errors.strip() or output.strip() or "nothing").splitlines()[-1]
            raise HandlerError(f"probe ended with {_code(code)}; it said: {last_line[:500]}")
        return code == 0

    async def left_of(self, unit: str) -> str:
        """Returns that a unit is up, in words, if the command `probe` says so; else nothing."""
        return "it is up, by its probe" if await self.is_up(unit) else ""

    async def _probe(self, unit: str) -> tuple[int, str, str]:
        told: dict[str, str] = {}
        if self._directory is not None:
            told = await in_thread(self._threads, read_file, self._directory / folder_name(unit) / TOLD)
        variables = {**told, "LEASEHOLD_UNIT": unit}
        return await self._run(PROBE, {"verb": PROBE, "unit": unit}, variables, None)

    async def close(self) -> None:
        self._threads.shutdown(wait=False)

    async def _run(
        self, verb: str, data: Mapping[str, Any], variables: Mapping[str, str], lock: int | None
    ) -> tuple[int, str, str]:
        command, keep = self._commands[verb], () if lock is None else (lock,)
        payload = msgspec.json.encode(data, enc_hook=_plain, order="deterministic")
        environment = {**os.environ, **self._environment, "LEASEHOLD_VERB": verb, **variables}
        try:
            code, output, errors = await run_program(command, payload, environment, keep, self._threads)
        except OSError as e:
            kind = NotBegun if descriptors.is_passing(e) else HandlerError
            raise kind(f"{command[0]} cannot be started for {verb}: {e.strerror or e}") from None
        return code, output.decode(errors="replace"), errors.decode(errors="replace")

    async def _lock(self, action: HandlerAction) -> int:
        """Takes the unit's lock, if necessary from an executable that an earlier incarnation left behind.

        Each look is a thread's: disks may be slow, and who holds the lock is looked for among all processes.
        """
        assert self._directory is not None
        file, pause, warned = self._directory / folder_name(action.on) / "lock", 0.02, False
        first = True
        while True:
            looking = in_thread(self._threads, _try, file, action, first)
            try:
                lock = await asyncio.shield(looking)
            except asyncio.CancelledError:
                await ended(looking)
                if looking.exception() is None and (late := looking.result()) is not None:
                    os.close(late)
                raise
            except OSError as e:
                if descriptors.is_passing(e) or e.errno in descriptors.FULL:
                    raise NotBegun(f"{file.parent} cannot be written: {e.strerror}") from None
                raise
            if lock is not None:
                return lock
            if pause >= LONGEST_PAUSE and not warned:
                warned = True
                log.warning("%s of %s waits for the lock %s, which a process keeps", action.verb, action.on, file)
            await asyncio.sleep(pause)
            first, pause = False, min(2 * pause, LONGEST_PAUSE)


def _try(file: Path, action: HandlerAction, first: bool) -> int | None:
    """The lock of a unit; None where a process holds it, which is ended if it is a past action's."""
    if first:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _guarded(file.with_name("guard")):
            want(file.with_name("wanted.json"), action)
    if (lock := files.lock(file)) is None:
        _end(file, action.on)
        return None
    try:
        write_file(file.with_name(TOLD), _variables(action))
    except BaseException:
        os.close(lock)
        raise
    return lock


@contextmanager
def _guarded(file: Path) -> Iterator[None]:
    """Excludes others while the newest action is written down, as only one at a time may write its file.

    Raises:
        HandlerError: another process has taken longer than GUARD_LIMIT.
    """
    deadline = time.monotonic() + GUARD_LIMIT
    while (guard := files.lock(file)) is None:
        if time.monotonic() > deadline:
            raise HandlerError(f"another process has held {file} for {GUARD_LIMIT:g} s; end that one")
        time.sleep(0.01)
    try:
        yield
    finally:
        os.close(guard)


def _end(lock: Path, name: str) -> None:
    """Kills the executable that holds the lock, and its processes that hold it too; never an actor."""
    file, mark = lock.stat(), f"{LOCK}={name}".encode()
    for seen in processes.everyone():
        if not seen.gone and processes.carries(seen.pid, mark) and processes.holds(seen.pid, file.st_dev, file.st_ino):
            processes.send(seen, signal.SIGKILL)


def _words(verb: str, line: object) -> tuple[str, ...]:
    words: list[str]
    try:
        words = shlex.split(line) if isinstance(line, str) else [*line] if isinstance(line, Sequence) else []
    except ValueError as e:
        raise HandlerError(f"{verb}: {line!r} is no command line: {e}") from None
    if not words or not all(isinstance(word, str) for word in words):
        raise HandlerError(f"{verb}: {str(line)[:80]!r} is no command line; write text, or a list of words")
    return tuple(words)


def _told(action: HandlerAction) -> dict[str, Any]:
    return {
        "verb": action.verb,
        "lease": action.lease,
        "unit": action.unit,
        "number": action.number,
        "task": action.task,
        "incarnation": action.incarnation,
        "answers": action.answers,
        "lease_data": action.lease_data,
        "unit_data": action.unit_data,
        "properties": action.properties,
        "index": action.index,
        "told": action.told,
        "type": action.type,
    }


def _variables(action: HandlerAction) -> dict[str, str]:
    return {
        "LEASEHOLD_LEASE": action.lease,
        "LEASEHOLD_UNIT": action.unit,
        "LEASEHOLD_NUMBER": str(action.number),
        "LEASEHOLD_TASK": action.task,
        "LEASEHOLD_INCARNATION": str(action.incarnation),
        LOCK: action.on,
        "LEASEHOLD_TERM_END": str(action.term_end),
        "LEASEHOLD_INDEX": str(action.index),
        "LEASEHOLD_TYPE": action.type,
        "LEASEHOLD_PROPERTIES": msgspec.json.encode(action.properties, enc_hook=_plain, order="deterministic").decode(),
    }


def _plain(value: object) -> object:
    """Replaces a value whose type JSON does not have; msgspec writes sets as sorted lists already."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def _read(output: str) -> tuple[dict[str, Any], str]:
    """The facts in the last line, and the text before them."""
    before, _, last = output.rstrip().rpartition("\n")
    try:
        facts = json.loads(last)
    except ValueError:
        return {}, output
    return (facts, before) if isinstance(facts, dict) else ({}, output)


def _code(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
