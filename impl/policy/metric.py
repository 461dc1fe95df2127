"""A number from outside, for a policy: the body at a URL, or the last line that a command prints.

Theory of operation. A policy that runs on the actor's loop waits for nothing, so a number is read in a thread, and the
policy looks at the last outcome whenever it likes. A reading has a time limit, after which a command is killed with its
process group, and reads no more than it is to: `MOST_BYTES` of a body, and the last part of a command's output. One
reading of a metric goes on at a time; one that hangs in spite of its limit, as the look-up of a name may, counts as
failed. A policy that is dropped leaves nothing behind but a reading that ends, and an actor that ends a command that
runs on.

Nothing here is durable. A number is what it was at one moment; after a restart it is read again.
"""

from __future__ import annotations

import asyncio
import math
import os
import shlex
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, NamedTuple

import aiohttp
from msgspec import Meta, Struct

from leasehold.impl.handlers.child import run_program

MOST_BYTES = 4096  # of a body
GRACE_SECONDS = 1.0  # beyond its limit, after which a reading is not waited for any more
LONGEST_WORDS = 200  # characters of an error


class MetricFault(Exception):
    """A number could not be read: from where, and why."""


class Metric(Struct, frozen=True, forbid_unknown_fields=True):
    """The place of a number.

    Attributes:
        command: prints it as its last line, and ends with exit code 0; a text, or a list of words.
        url: has it as its body (`http://` or `https://`).
        seconds: after which a reading has failed.
        every: ticks from one reading to the next, at least.
    """

    command: str | list[str] = ""
    url: str = ""
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    every: Annotated[int, Meta(ge=1)] = 1

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("a metric has either a `command` or a `url`")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"the url {self.url[:80]!r} begins with neither http:// nor https://")
        if self.command:
            try:
                if not self.words():
                    raise ValueError("it has no word")
            except ValueError as error:
                raise ValueError(f"the command {str(self.command)[:80]!r} cannot be run: {error}") from None

    def words(self) -> Sequence[str]:
        """The command as words."""
        return shlex.split(self.command) if isinstance(self.command, str) else self.command

    def __str__(self) -> str:
        return self.url or " ".join(self.words())

    async def read(self) -> float:
        """The number as it is now: finite, and not below 0.

        Raises:
            MetricFault: it cannot be had, in time or at all, or is no such number.
        """
        try:
            async with asyncio.timeout(self.seconds):
                text = await (self._fetched() if self.url else self._printed())
        except TimeoutError:
            raise MetricFault(f"{self}: says nothing within {self.seconds:g} s") from None
        except (OSError, aiohttp.ClientError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise MetricFault(f"{self}: cannot be read: {reason[:LONGEST_WORDS]}") from None
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number < 0:
            raise MetricFault(f"{self}: says {text[:60]!r}, and not a number from 0 on")
        return number

    async def _fetched(self) -> str:
        async with aiohttp.ClientSession() as session, session.get(self.url) as answer:
            body = await answer.content.read(MOST_BYTES + 1)
            while len(body) <= MOST_BYTES and (more := await answer.content.read(MOST_BYTES + 1 - len(body))):
                body += more
            if answer.status != 200:
                raise MetricFault(f"{self}: answers with status {answer.status}")
            if len(body) > MOST_BYTES:
                raise MetricFault(f"{self}: says more than {MOST_BYTES} bytes, and not a number")
            return body.decode(errors="replace").strip()

    async def _printed(self) -> str:
        threads = ThreadPoolExecutor(1, "metric")
        try:
            code, output, errors = await run_program(self.words(), b"", os.environ, (), threads)
        finally:
            threads.shutdown(wait=False)
        if code:
            said = (errors.decode(errors="replace").strip() or "nothing").splitlines()[-1]
            raise MetricFault(f"{self}: ended with {code}; it said: {said[:LONGEST_WORDS]}")
        return (output.decode(errors="replace").strip().splitlines() or [""])[-1].strip()


class MetricReading(NamedTuple):
    """The outcome of a reading.

    Attributes:
        at: the tick at which it began.
        number: that was read; None: there was none.
        fault: why not, in words.
    """

    at: int
    number: float | None
    fault: str = ""


class MetricReader:
    """Reads a metric now and then, in a thread.

    Args:
        metric: where the number is.

    Attributes:
        last: the last reading that has ended; None: none has.
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.last: MetricReading | None = None
        self._began: int | None = None
        self._limit = 0.0  # of the reading that goes on, on the monotonic clock
        self._thread: threading.Thread | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> MetricReader:
        return MetricReader(self.metric)

    def poll(self, now: int) -> None:
        """Begins a reading where one is due and none goes on; returns at once."""
        if self._thread is not None and self._thread.is_alive():
            if time.monotonic() > self._limit and self._began is not None:
                self.last = MetricReading(self._began, None, self._silent)
            return
        if self._began is not None and now < self._began + self.metric.every:
            return
        self._began, self._limit = now, time.monotonic() + self.metric.seconds + GRACE_SECONDS
        self._thread = threading.Thread(target=self._read, args=(now,), name="metric", daemon=True)
        self._thread.start()

    def _read(self, now: int) -> None:
        limit = self._limit
        try:
            reading = MetricReading(now, asyncio.run(self.metric.read()))
        except MetricFault as fault:
            reading = MetricReading(now, None, str(fault))
        except Exception as error:  # a reading that fails otherwise is a fault like any other
            reading = MetricReading(now, None, f"{self.metric}: cannot be read: {type(error).__name__}: {error}")
        self.last = reading if time.monotonic() <= limit else MetricReading(now, None, self._silent)

    @property
    def _silent(self) -> str:
        return f"{self.metric}: says nothing within {self.metric.seconds:g} s"
