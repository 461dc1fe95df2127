"""Observers by themselves: forms of a log's lines and their bounds, the watchdog, metrics, and ids of spans."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from leasehold import __version__
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.observe import logs
from leasehold.impl.observe.logs import ABOUT, JsonLines, TextLines, act_as
from leasehold.impl.observe.metrics import Metrics
from leasehold.impl.observe.traces import Traces, message_id, root_id, trace_id
from leasehold.impl.observe.watch import WatchError, host_and_port, watch
from leasehold.impl.observe.watchdog import Watchdog
from tests.impl.observe.test_metrics import read, value
from tests.impl.virtual import virtual

AT = datetime(2026, 3, 4, 5, 6, 7, 89_999, UTC).timestamp()


def record(level: int = logging.INFO, words: str = "said", **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("leasehold.x", level, "", 0, words, (), None)
    made.created = AT
    if fields:
        setattr(made, ABOUT, fields)
    return made


# Lines


@pytest.mark.parametrize(
    ("actor", "digest", "own"),
    [
        ("", "", {}),
        ("site", "", {"actor": "site"}),
        ("", "abc", {"digest": "abc"}),
        ("site", "abc", {"actor": "site", "digest": "abc"}),
    ],
)
def test_a_line_of_json_has_each_field_once(actor: str, digest: str, own: dict[str, str]) -> None:
    """Fields of the record come before those of the task, and these before those of the process."""
    lines = JsonLines(actor, digest)
    first = {"time": "2026-03-04T05:06:07.089Z", "level": "info", "logger": "leasehold.x"}
    assert json.loads(lines.format(record())) == {**first, **own, "message": "said"}
    told = json.loads(lines.format(record(actor="other", now=3, path=Path("a/b"), odd={1})))
    assert told == {**first, **own, "actor": "other", "now": 3, "path": "a/b", "odd": "{1}", "message": "said"}

    async def story() -> dict[str, Any]:
        act_as("broker", "def")
        found: dict[str, Any] = json.loads(lines.format(record(now=3)))
        return found

    assert asyncio.run(story()) == {**first, "actor": "broker", "digest": "def", "now": 3, "message": "said"}
    assert "broker" not in lines.format(record())  # another task is none of that actor's
    assert "exception" not in told


@pytest.mark.parametrize(
    ("level", "name", "colour"),
    [
        (logging.DEBUG, "debug  ", "2"),
        (logging.INFO, "info   ", ""),
        (logging.WARNING, "warning", "33"),
        (logging.ERROR, "error  ", "31"),
        (logging.CRITICAL, "critical", "31;1"),
    ],
)
def test_each_level_has_its_colour_on_a_terminal(level: int, name: str, colour: str) -> None:
    shown = f"\x1b[{colour}m{name}\x1b[0m" if colour else name
    time_ = "2026-03-04T05:06:07.089Z"
    assert TextLines("site", colour=True).format(record(level)) == f"{time_} {shown} site said"
    assert TextLines("site").format(record(level)) == f"{time_} {name} site said"


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("actor", "digest", "shown"),
    [
        ("", "", "told"),
        ("site", "", "site"),
        ("site", "0123456789abcdef", "site@0123456789ab"),
        ("", "0123", "told"),
    ],
)
async def test_a_line_of_text_names_its_actor(actor: str, digest: str, shown: str) -> None:
    """The actor of the task, else that of the process, else that of the record; its digest is cut."""
    lines = TextLines(actor, digest)
    assert lines.format(record(actor="told")).split(" ", 1)[1] == f"info    {shown} said"
    assert TextLines().format(record()).split(" ", 1)[1] == "info    said"
    act_as("broker", "f" * 64)
    result = lines.format(record(actor="told"))
    assert result.split(" ", 1)[1] == f"info    broker@{'f' * 12} said"


# The log of a process


@pytest.fixture
def configured() -> Iterator[Callable[..., logging.Handler]]:
    """Configures the log, and returns its handler; all is as before afterwards."""
    package, root = logging.getLogger("leasehold"), logging.getLogger()
    level, handlers = package.level, list(root.handlers)

    def configure(**options: Any) -> logging.Handler:
        logs.configure(**options)
        (found,) = [handler for handler in root.handlers if isinstance(handler, logs._Shown)]
        return found

    yield configure
    for handler in root.handlers:
        if isinstance(handler, logs._Shown):
            handler.close()
    package.setLevel(level)
    root.handlers[:] = handlers


class Terminal(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "plain", "colour"),
    [
        (True, None, True),
        (True, "", True),
        (True, "1", False),
        (False, None, False),
    ],
)
def test_colours_are_for_a_terminal_whose_user_wants_them(
    terminal: bool, plain: str | None, colour: bool, configured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if plain is not None:
        monkeypatch.setenv("NO_COLOR", plain)
    stream = Terminal(terminal)
    handler = configured(stream=stream, actor="site", digest="abc")
    logging.getLogger("leasehold.x").warning("said")
    handler.flush()
    assert ("\x1b[33m" in stream.getvalue()) is colour
    assert stream.getvalue().endswith(" site@abc said\n")


@pytest.mark.parametrize("level", logs.LEVELS)
def test_records_are_shown_from_the_level_on(level: str, configured: Any) -> None:
    stream = io.StringIO()
    handler = configured(stream=stream, level=level, form="json", actor="site", digest="abc")
    for name in logs.LEVELS:
        getattr(logging.getLogger("leasehold.x"), name)(name)
    handler.flush()
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["level"] for line in told] == [*logs.LEVELS][logs.LEVELS.index(level) :]
    assert {(line["actor"], line["digest"]) for line in told} == {("site", "abc")}
    assert logs.LEVELS == ("debug", "info", "warning", "error")
    assert (logs.MOST_LINES, logs.FLUSH_SECONDS) == (10_000, 1.0)


def threads() -> int:
    return sum(thread.name == "log" for thread in threading.enumerate())


def test_a_log_that_is_replaced_ends_its_thread_and_left_out_is_standard_error(
    configured: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    before = threads()
    streams = [io.StringIO() for _ in range(3)]
    for number, stream in enumerate(streams):
        handler = configured(stream=stream)
        logging.getLogger("leasehold.x").info("line %d", number)
    handler.flush()
    assert [stream.getvalue().count("\n") for stream in streams] == [1, 1, 1]
    deadline = time.monotonic() + 10
    while threads() > before + 1:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    handler = configured()
    logging.getLogger("leasehold.x").info("to all")
    handler.flush()
    assert "to all" in capfd.readouterr().err
    handler.close()
    while threads() > before:
        assert time.monotonic() < deadline + 10
        time.sleep(0.005)


class Slow(io.StringIO):
    """A stream that takes nothing until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.free = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        self.asked.set()
        self.free.wait(30)
        return super().write(text)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_lines_that_find_no_place_are_counted(count: int, configured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is being written and three wait; who logs never does."""
    monkeypatch.setattr(logs, "MOST_LINES", 3)
    monkeypatch.setattr(logs, "FLUSH_SECONDS", 0.05)
    stream, log = Slow(), logging.getLogger("leasehold.x")
    handler = configured(stream=stream, form="json", actor="site")
    log.info("first")
    assert stream.asked.wait(10)
    began = time.monotonic()
    for number in range(count):
        log.info("%d", number)
    handler.flush()  # not for ever
    assert time.monotonic() - began < 5
    assert stream.getvalue() == ""
    monkeypatch.setattr(logs, "FLUSH_SECONDS", 10.0)
    stream.free.set()
    handler.flush()
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    shown = ["first", *map(str, range(min(count, 3)))]
    left_out = [] if count <= 3 else [f"{count - 3} lines were left out, as nobody read the log"]
    assert [line["message"] for line in told] == shown + left_out
    if left_out:
        assert (told[-1]["level"], told[-1]["logger"], told[-1]["actor"]) == ("warning", "leasehold.logs", "site")
    log.info("later")
    handler.flush()
    assert json.loads(stream.getvalue().splitlines()[-1])["message"] == "later"


def test_a_line_that_cannot_be_formed_or_written_costs_no_other(configured: Any, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        handler, log = configured(stream=file), logging.getLogger("leasehold.x")
        handler.handle(logging.LogRecord("leasehold.x", logging.INFO, "", 0, "%d", ("no number",), None))
        log.info("good")
        handler.flush()
        assert (tmp_path / "log").read_text().endswith("good\n")
        assert (tmp_path / "log").read_text().count("\n") == 1
    log.info("the stream is closed")
    handler.flush()
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as pipe:
        handler = configured(stream=pipe)
        log.info("nobody reads")
        handler.flush()
        assert threads()
        log.info("again")
        handler.flush()


def test_a_long_text_is_written_to_its_end_whatever_a_pipe_takes_at_once(configured: Any) -> None:
    read_end, write_end = os.pipe()
    heard = list[bytes]()

    def hear() -> None:
        while part := os.read(read_end, 1000):
            heard.append(part)

    thread = threading.Thread(target=hear)
    with os.fdopen(write_end, "w", encoding="utf-8") as pipe:
        handler = configured(stream=pipe)
        thread.start()
        for number in range(300):
            logging.getLogger("leasehold.x").info("%d é %s", number, "y" * 1000)
        handler.flush()
    thread.join(10)
    os.close(read_end)
    lines = b"".join(heard).decode().splitlines()
    assert [line.split()[2] for line in lines] == [*map(str, range(300))]
    assert all(line.endswith("é " + "y" * 1000) for line in lines)


# The watchdog


def test_who_asks_while_the_loop_is_blocked_hears_for_how_long(caplog: pytest.LogCaptureFixture) -> None:
    """Another thread asks; afterwards nothing is said any more, and the thread ends with the watchdog."""
    seen: list[float] = []

    caplog.set_level(logging.WARNING, "leasehold.watchdog")

    async def story() -> None:
        async with Cluster(2) as c:
            dog = Watchdog(c.site, limit=0.05)
            assert Watchdog(c.site).limit == 5.0
            dog.start()
            await asyncio.sleep(0.1)
            assert dog.stalled_seconds == 0.0

            def ask() -> None:
                for _ in range(100):
                    seen.append(dog.stalled_seconds)
                    time.sleep(0.005)

            asking = threading.Thread(target=ask)
            asking.start()
            time.sleep(0.4)  # as code does that forgets to await
            asking.join()
            for _ in range(200):
                if "goes on, after" in caplog.text:
                    break
                await asyncio.sleep(0.01)
            assert (dog.stalls, dog.stalled_seconds) == (1, 0.0)
            dog.close()
            for _ in range(200):
                if not any(thread.name == "watchdog" for thread in threading.enumerate()):
                    break
                await asyncio.sleep(0.01)
            assert not any(thread.name == "watchdog" for thread in threading.enumerate())

    asyncio.run(story())
    still = [seconds for seconds in seen if seconds]
    assert still
    assert still == sorted(still)
    assert all(0.05 < seconds < 5 for seconds in still)


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("127.0.0.1:9472", ("127.0.0.1", 9472)),
        ("[::1]:0", ("::1", 0)),
        ("a.b:65535", ("a.b", 65535)),
        ("a:65536", None),
        ("a:-1", None),
        ("a:", None),
        (":1", None),
        ("a", None),
        ("a:1x", None),
        ("9472", None),
        ("127.0.0.1:http", None),
        ("", None),
    ],
)
def test_an_address_has_a_host_and_a_port(place: str, found: tuple[str, int] | None) -> None:
    if found is not None:
        assert host_and_port(place) == found
    else:
        with pytest.raises(WatchError, match=r"is no HOST:PORT; write, say, 127\.0\.0\.1:9472"):
            host_and_port(place)


@pytest.mark.real_time
async def test_a_watch_has_traces_only_where_they_are_asked_for_and_closes_all() -> None:
    async with Cluster(2) as c:
        seen = watch(c.site)
        assert seen.traces is None
        assert seen.metrics._watchdog is seen.watchdog
        assert len(c.site.notices.subscribers) == 2
        c.site.running = False
        assert seen.readiness == "site takes no steps, as it recovers or its store has failed"
        c.site.running = True
        seen.watchdog._blocked_since = time.monotonic() - 7.0
        assert seen.health == seen.readiness == "the loop of site has stood still for 7.0 s"
        seen.close()
        assert seen.watchdog._closed.is_set()
        assert not c.site.notices.subscribers
        traced = watch(c.site, traces=True)
        assert traced.traces is not None
        assert len(c.site.notices.subscribers) == 3
        await asyncio.to_thread(traced.close)
        assert not c.site.notices.subscribers


# Metrics


async def test_each_count_of_an_actor_is_told_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and values that all differ."""
    named = {
        "messages_refused": "messages refused",
        "messages_refused_by_peers": "refused by peers",
        "policy_errors": "policy errors",
        "policy_timeouts": "policy timeouts",
        "calls_not_begun": "not begun",
        "followers_overtaken": "followers overtaken",
        "detectors_ended": "detectors ended",
    }

    async with Cluster(2) as c:
        dog = Watchdog(c.site)
        metrics = Metrics(c.site, dog)
        samples = read(metrics)
        assert all(value(samples, f"{name}_total") == 0 for name in (*named, "subscriber_errors", "loop_stalls"))
        for number, count in enumerate(named.values(), 11):
            c.site.counts[count] = number
        c.site.counts |= {"raised": 35, "raised refused": 36}
        c.site.notices.masked, dog.stalls = 31, 32
        dog._blocked_since = time.monotonic() - 100.0
        monkeypatch.setattr(type(c.site.upcalls), "abandoned", property(lambda upcalls: 33))
        c.site.remains.found.update(dict.fromkeys(range(34)))  # type: ignore[misc]
        c.site.table.unaddressed.update({1: {1, 2}, 2: {3}})  # type: ignore[dict-item]
        samples = read(metrics)
        for number, name in enumerate(named, 11):
            assert value(samples, f"{name}_total") == number
        assert value(samples, "raised_events_total", result="taken") == 35
        assert value(samples, "raised_events_total", result="refused") == 36
        assert value(samples, "subscriber_errors_total") == 31
        assert value(samples, "loop_stalls_total") == 32
        assert 100 <= value(samples, "loop_stalled_seconds") < 200
        assert value(samples, "units_left") == 34
        assert value(samples, "policy_threads_abandoned") == 33
        assert value(samples, "unaddressed_messages") == 3
        assert not any(name.endswith("_created") for name, _ in samples)
        metrics.close()
        c.site.remains.found.clear()
        c.site.table.unaddressed.clear()


# Spans


def test_ids_of_spans_are_the_same_in_every_actor_and_version() -> None:
    """Parts of a digest of the names, which all differ."""
    digest = sha256(b"lease\0tenant:1").digest()
    assert trace_id("lease", "tenant:1") == int.from_bytes(digest[:16])
    assert root_id("lease", "tenant:1") == int.from_bytes(digest[16:24])
    message = sha256(b"lease\0tenant:1\0broker\0service_manager\x007").digest()
    assert message_id("lease", "tenant:1", "broker", "service_manager", 7) == int.from_bytes(message[:8])


def test_spans_say_which_actor_they_are_of_and_policies_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    for name in ("", "mine"):
        if name:
            monkeypatch.setenv("OTEL_SERVICE_NAME", name)
        exporter = InMemorySpanExporter()

        async def story(exporter: InMemorySpanExporter = exporter, name: str = name) -> None:
            async with Cluster(2) as c:
                traces = Traces(c.site, exporter)
                await c.lease(1, until=30)
                assert traces.flush()
                spans = exporter.get_finished_spans()
                shared = dict(spans[0].resource.attributes)
                assert {key: text for key, text in shared.items() if not key.startswith(("telemetry", "process"))} == {
                    "service.name": name or "site",
                    "service.namespace": "leasehold",
                    "service.instance.id": "site",
                    "service.version": __version__,
                    "leasehold.system": "lease",
                    "leasehold.digest": c.program.digest,
                }
                (place,) = [span for span in spans if span.name == "policy.place"]
                assert place.end_time is not None
                assert place.attributes is not None
                assert place.attributes["leasehold.machine"] == "authority"
                assert {span.instrumentation_scope.name for span in spans if span.instrumentation_scope} == {
                    "leasehold"
                }
                traces.close()
                assert exporter._stopped
                assert not c.site.notices.subscribers

        virtual(story())
