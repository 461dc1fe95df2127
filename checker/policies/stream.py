"""Streams of requests: read from a file, or made by chance.

A file is in the Standard Workload Format (Feitelson's Parallel Workloads Archive; `.swf`), or a table with commas,
whose first line names the columns:

    at,units,ticks,until_start,user,weight,bid

The first three are needed. A request comes at the tick `at`, wants `units` for `ticks`, and has missed its start if it
has none at `until_start`. The user pays `bid` for a unit and a tick, and has a share by `weight`.

A job of the archive becomes a request: its times are divided by the seconds of a tick, its processors by those of a
unit, and rounded up; its user is the user, its queue number the bid. It says of no job how long it would have waited: a
patience is given for all. Jobs of unknown size or time, and those that did not run, are left out.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from leasehold.impl.words import choices, counted

COLUMNS = ("at", "units", "ticks", "until_start", "user", "weight", "bid")
NEEDED = COLUMNS[:3]
SWF_FIELDS = 18
SUBMITTED, RAN, GIVEN, ASKED, USER, QUEUE = 1, 3, 4, 7, 11, 14  # the fields of a job that are read
PATIENCE = 4  # times its ticks for which a request waits, where nothing is said
MOST = 1_000_000  # of any number of a file


class StreamError(ValueError):
    """A stream cannot be read or made: place, what, and the remedy."""


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """A request of a stream.

    Attributes:
        number: of the request, from 1 on.
        at: the tick at which it comes.
        units: how many it wants.
        ticks: for how long.
        until_start: the tick at which it is given up, if it has no units by then.
        user: who asks.
        weight: of the user's share.
        bid: that the user pays for a unit and a tick.
    """

    number: int
    at: int
    units: int
    ticks: int
    until_start: int
    user: str
    weight: int = 1
    bid: int = 1

    @property
    def until(self) -> int:
        """The tick at which it is of no use any more."""
        return self.until_start + self.ticks

    @property
    def work(self) -> int:
        """The units and ticks that it needs."""
        return self.units * self.ticks

    @property
    def properties(self) -> dict[str, Any]:
        """The request properties, which the policy of the broker reads."""
        words = {name: getattr(self, name) for name in ("user", "weight", "bid", "until_start", "ticks")}
        return {**words, "deadline": self.until}


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests in the order in which they come.

    Attributes:
        name: where they are from.
        units: of the site, where the file says so.
        left_out: jobs of a file that became no request.
    """

    name: str
    requests: tuple[TimedRequest, ...]
    units: int | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Generator:
    """Requests by chance, which come independently of each other.

    Attributes:
        rate: requests that come in a tick, on average.
        units: the most that one asks for.
        ticks: that one asks for, on average.
        seed: of all that is left to chance.
        requests: how many.
        users: how many; the weight of the first is 1, of the second 2, and so on.
        patience: times its own ticks for which a request waits, on average.
        bids: the highest.
    """

    rate: float = 0.5
    units: int = 4
    ticks: int = 10
    seed: int = 0
    requests: int = 100
    users: int = 3
    patience: float = 2.0
    bids: int = 9

    @classmethod
    def parse(cls, text: str, seed: int) -> Generator:
        """Reads `rate=0.5,units=4,...`; a seed that is not named is the one that is given.

        Raises:
            StreamError: it says something else.
        """
        usual = cls()
        kinds: dict[str, type[int | float]] = {field.name: type(getattr(usual, field.name)) for field in fields(cls)}
        values: dict[str, Any] = {"seed": seed}
        for part in text.split(","):
            name, equals, value = (one.strip() for one in part.partition("="))
            if not equals or name not in kinds:
                raise StreamError(f"--generate: {part[:60]!r} is no setting of a stream{choices(name, [*kinds])}")
            try:
                values[name] = kinds[name](value)
            except ValueError:
                values[name] = -1
            least = 0 if name == "seed" else 1 if kinds[name] is int else 0.001
            if not least <= values[name] <= MOST:  # also what is no number
                raise StreamError(f"--generate: {name} is {value[:60]!r}; it needs a number from {least:g} to {MOST:,}")
        return cls(**values)

    def stream(self) -> Stream:
        """The requests."""
        chance, at, made = random.Random(f"stream {self.seed}"), 1.0, []
        for number in range(1, self.requests + 1):
            at += chance.expovariate(self.rate)
            units = min(self.units, 1 + int(chance.expovariate(2 / self.units)))
            ticks = 1 + int(chance.expovariate(1 / self.ticks))
            waits = 1 + int(chance.expovariate(1 / (self.patience * ticks)))
            user = chance.randrange(self.users) + 1
            bid = chance.randint(1, self.bids)
            made.append(TimedRequest(number, int(at), units, ticks, int(at) + waits, f"user-{user}", user, bid))
        shown = ",".join(f"{field.name}={getattr(self, field.name):g}" for field in fields(self))
        return Stream(shown, tuple(made))


def read_stream(path: Path, tick_seconds: int, processors: int, patience: int | None) -> Stream:
    """Reads a file of requests.

    Args:
        path: the file; of the archive's form where its name ends so.
        tick_seconds: of jobs in the archive's form.
        processors: of a unit, for the same.
        patience: ticks for which a request waits that does not say it; left out: some times its own ticks.

    Raises:
        StreamError: it cannot be read; with the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise StreamError(f"{path}: cannot be read: {reason}; name a file of requests") from None
    if path.suffix == ".swf":
        stream = _jobs(str(path), lines, tick_seconds, processors, patience)
    else:
        stream = Stream(str(path), tuple(_in_order(_rows(str(path), lines, patience))))
    if not stream.requests:
        raise StreamError(f"{path}: has no request; give it a line for each")
    return stream


def _in_order(requests: Iterable[TimedRequest]) -> Iterator[TimedRequest]:
    return iter(sorted(requests, key=lambda request: (request.at, request.number)))


def _waits(at: int, ticks: int, patience: int | None) -> int:
    return at + (PATIENCE * ticks if patience is None else patience)


def _rows(path: str, lines: list[str], patience: int | None) -> Iterator[TimedRequest]:
    """The requests of a table."""
    names = [name.strip() for name in lines[0].split(",")] if lines else []
    if missing := [name for name in NEEDED if name not in names]:
        raise StreamError(
            f"{path}:1: the column {missing[0]} is missing; the first line names the columns: {','.join(COLUMNS)}"
        )
    if strange := [name for name in names if name not in COLUMNS]:
        raise StreamError(f"{path}:1: there is no column {strange[0][:60]!r}{choices(strange[0], COLUMNS)}")
    for number, row in enumerate(csv.reader(lines[1:]), 1):
        if not row or row[0].startswith("#"):
            continue
        place = f"{path}:{number + 1}"
        if len(row) != len(names):
            raise StreamError(f"{place}: has {counted(len(row), 'value')}, and the first line {len(names)} names")
        values = dict(zip(names, (value.strip() for value in row), strict=True))
        at, units, ticks = (_number(place, name, values[name], 1) for name in NEEDED)
        given = values.get("until_start", "")
        until = _number(place, "until_start", given, at) if given else _waits(at, ticks, patience)
        weight, bid = (
            _number(place, name, values.get(name) or "1", least) for name, least in (("weight", 1), ("bid", 0))
        )
        yield TimedRequest(number, at, units, ticks, until, (values.get("user") or "user")[:64], weight, bid)


def _number(place: str, name: str, value: str, least: int) -> int:
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 12 else -1
    if not least <= number <= MOST:
        raise StreamError(f"{place}: {name} is {value[:60]!r}; it needs a whole number from {least} to {MOST:,}")
    return number


def _jobs(path: str, lines: list[str], tick_seconds: int, processors: int, patience: int | None) -> Stream:
    """The jobs of a file of the archive."""
    header: dict[str, str] = {}
    made: list[TimedRequest] = []
    left_out, first = 0, None
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(";"):
            name, _, value = line.lstrip("; \t").partition(":")
            header.setdefault(name.strip(), value.strip())
            continue
        words = line.split()
        if not words:
            continue
        if len(words) != SWF_FIELDS:
            raise StreamError(
                f"{path}:{number}: has {counted(len(words), 'field')}; a job of the Standard Workload Format has "
                f"{SWF_FIELDS} (a table with commas has another ending than .swf)"
            )
        try:
            job = [int(float(word)) for word in words]
        except (ValueError, OverflowError):
            raise StreamError(f"{path}:{number}: {line[:60]!r} is no job; each of its fields is a number") from None
        units = -(-max(job[ASKED], job[GIVEN]) // processors)
        ticks = -(-max(job[RAN], 0) // tick_seconds)
        if units < 1 or ticks < 1 or job[SUBMITTED] < 0:
            left_out += 1
            continue
        first = job[SUBMITTED] if first is None else min(first, job[SUBMITTED])
        at = 1 + job[SUBMITTED] // tick_seconds
        made.append(
            TimedRequest(
                len(made) + 1, at, units, ticks, _waits(at, ticks, patience), f"user-{job[USER]}", 1, max(1, job[QUEUE])
            )
        )
    shift = (first or 0) // tick_seconds
    requests = (_earlier(request, shift) for request in _in_order(made))
    return Stream(path, tuple(requests), _units_of(header, processors), left_out)


def _earlier(request: TimedRequest, ticks: int) -> TimedRequest:
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    return TimedRequest(**{**values, "at": request.at - ticks, "until_start": request.until_start - ticks})


def _units_of(header: Mapping[str, str], processors: int) -> int | None:
    """The units of the machine that a file is of, by its header."""
    for name in ("MaxProcs", "MaxNodes"):
        word = header.get(name, "").split(" ")[0]
        if word.isdigit() and int(word):
            return int(word) // processors or 1
    return None
