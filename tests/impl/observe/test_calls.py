"""Handler calls by an actor's notices: each has one beginning and one end, whatever comes between."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.actor.table import BELOW
from leasehold.impl.files import table
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.observe import journal
from leasehold.impl.observe.calls import CallInProgress, CallTracker, Result, lease_of
from leasehold.impl.observe.journal import LEVELS, Journal
from leasehold.impl.observe.logs import about
from leasehold.impl.observe.metrics import Metrics
from leasehold.impl.observe.traces import Traces
from leasehold.impl.observe.watchdog import Watchdog
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.systems import TESTS

BENCH = TESTS / "impl/observe/systems/bench"


class Bench:
    """A worker and its tools at work, and a tracker that is told by hand."""

    def __init__(self, actor: Any) -> None:
        self.actor, self.begun, self.ended = actor, list[CallInProgress](), list[tuple[str, Result]]()
        self.tracker = CallTracker(actor, self._end, self.begun.append)

    def _end(self, begun: CallInProgress, result: Result) -> None:
        assert begun.seconds >= 0
        self.ended.append((begun.verb, result))

    def call(self, name: str, machine: str = "worker", lease: str = "own:1") -> None:
        self.tracker.begin(Notice(Kind.CALL, "own", lease if machine == "worker" else BELOW, machine, name))

    def answer(self, name: str, well: bool = True, machine: str = "worker", lease: str = "own:1") -> None:
        where = lease if machine == "worker" else BELOW
        self.tracker.answer(Notice(Kind.ANSWERED, "own", where, machine, name, 0, {"well": well}))

    def move(self, machine: str = "worker", lease: str = "own:1") -> None:
        self.tracker.move(Notice(Kind.TRANSITION, "own", lease if machine == "worker" else BELOW, machine, "x"))

    def take(self) -> list[tuple[str, Result]]:
        """Spans that have ended since the last question."""
        found, self.ended[:] = list(self.ended), []
        return found


@pytest.fixture
def bench() -> contextlib.AbstractAsyncContextManager[Bench]:
    """An actor of a bench of which the worker and both tools are at work."""
    program = program_of(BENCH)

    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Bench]:
        handlers = dict.fromkeys(("saw", "sweep", "hone"), GatedHandler())
        actor = alone(program, "worker", MemoryStore(Disk()), handlers, SimulatedClock())
        await actor.start()
        await actor.begin("own:1", "worker", "begin", {}, {})
        yield Bench(actor)
        await actor.stop()

    return made()


async def test_only_a_handler_s_call_of_a_machine_that_asks_for_it_begins(bench: Any) -> None:
    async with bench as b:
        b.call("policy.decide")
        b.call("handler.none")
        b.call("handler.hone")  # it is not the worker's
        b.call("handler.saw", lease="own:2")
        b.call("handler.saw", machine="tool[0]")
        b.call("saw")
        assert (b.begun, b.ended) == ([], [])
        b.call("handler.saw")
        b.call("handler.hone", "tool[0]")
        assert [(one.verb, one.answers, one.notice.machine) for one in b.begun] == [
            ("saw", ("cut", "spoilt"), "worker"),
            ("hone", ("sharp", "blunt"), "tool[0]"),
        ]
        assert b.ended == []
        del b.actor.environment.handlers["saw"]
        b.call("handler.saw")
        assert len(b.begun) == 2


async def test_a_call_without_an_answer_has_no_known_end(bench: Any) -> None:
    async with bench as b:
        b.call("handler.sweep")
        assert ([one.verb for one in b.begun], b.take()) == (["sweep"], [("sweep", Result.UNAWAITED)])
        b.move()
        b.tracker.end()
        assert b.take() == []


@pytest.mark.parametrize("well", [True, False])
@pytest.mark.parametrize(
    ("verb", "machine", "answers"),
    [
        ("saw", "worker", ("cut", "spoilt")),
        ("hone", "tool[1]", ("sharp", "blunt")),
    ],
)
async def test_a_call_ends_once_by_any_of_its_answers(
    verb: str, machine: str, answers: tuple[str, ...], well: bool, bench: Any
) -> None:
    async with bench as b:
        for answer in answers:
            b.call(f"handler.{verb}", machine)
            notice = Notice(Kind.ANSWERED, "own", "own:1" if machine == "worker" else BELOW, machine, answer)
            assert b.tracker.find(notice) is b.begun[-1]
            b.answer("begin", well, machine)  # another event
            b.answer(answer, well, "tool[0]")  # another machine
            b.answer(answer, well, "worker", "own:2")
            assert b.take() == []
            b.answer(answer, well, machine)
            assert b.take() == [(verb, Result.WELL if well else Result.FAILED)]
            assert b.tracker.find(notice) is None
            b.answer(answer, well, machine)
            b.tracker.end()
            assert b.take() == []


async def test_a_call_is_replaced_by_the_next_of_its_task_or_of_its_unit(bench: Any) -> None:
    async with bench as b:
        b.call("handler.saw")
        b.call("handler.hone", "tool[0]")
        b.call("handler.hone", "tool[1]")
        assert b.take() == []
        b.call("handler.saw")
        assert b.take() == [("saw", Result.GIVEN_UP)]
        b.call("handler.hone", "tool[1]")
        assert b.take() == [("hone", Result.GIVEN_UP)]
        assert len(b.begun) == 5
        b.tracker.end()
        assert sorted(b.take()) == [("hone", Result.GIVEN_UP)] * 2 + [("saw", Result.GIVEN_UP)]
        b.tracker.end()
        assert b.take() == []


async def test_a_state_that_does_not_ask_for_a_task_has_given_it_up(bench: Any) -> None:
    """A unit's is given up by its next call alone."""
    async with bench as b:
        b.move()  # nothing is under way
        b.call("handler.saw")
        b.call("handler.hone", "tool[0]")
        b.move()
        b.move("tool[0]")
        assert b.take() == []  # it still asks for it
        await b.actor.tell("own:1", "worker", "rest")
        b.move(lease="own:2")
        assert b.take() == []
        b.move()
        assert b.take() == [("saw", Result.GIVEN_UP)]
        b.actor.table.instances.pop(RecordKey(BELOW, "tool[0]"))
        b.move("tool[0]")
        assert b.take() == []
        await b.actor.tell("own:1", "worker", "begin")
        b.call("handler.saw")
        held = b.actor.table.instances.pop(RecordKey("own:1", "worker"))
        b.move()  # the machine is forgotten
        assert b.take() == [("saw", Result.GIVEN_UP)]
        b.actor.table.instances[held.key] = held


async def test_a_machine_that_is_forgotten_gives_up_the_calls_below_it(bench: Any) -> None:
    async with bench as b:
        for number in range(2):
            b.call("handler.hone", f"tool[{number}]")
        b.call("handler.saw")
        b.tracker.forget(Notice(Kind.FORGET, "own", BELOW, "worker"))
        b.tracker.forget(Notice(Kind.FORGET, "own", "own:1", "worker", data={"below": ("tool[0]",)}))
        assert b.take() == []
        b.tracker.forget(Notice(Kind.FORGET, "own", BELOW, "worker", data={"below": ("tool[1]", "tool[7]")}))
        assert b.take() == [("hone", Result.GIVEN_UP)]
        b.answer("sharp", machine="tool[0]")
        assert b.take() == [("hone", Result.WELL)]


async def test_a_notice_is_about_a_lease_or_that_which_drove_its_unit_last(bench: Any) -> None:
    async with bench as b:
        for lease, machine, found in (
            ("own:1", "worker", "own:1"),
            ("own:9", "worker", "own:9"),
            (BELOW, "tool[0]", "own:1"),
            (BELOW, "tool[7]", ""),
            ("", "", ""),
        ):
            assert lease_of(b.actor, Notice(Kind.SEND, "own", lease, machine)) == found


@pytest.mark.real_time
async def test_a_call_that_a_state_gives_up_is_counted_and_its_span_ends() -> None:
    """Metrics and traces hear of it; the root of a lease's trace is told once."""
    program, exporter = program_of(BENCH), InMemorySpanExporter()
    handlers = dict.fromkeys(("saw", "sweep", "hone"), GatedHandler())
    actor = alone(program, "worker", MemoryStore(Disk()), handlers, SimulatedClock())
    metrics, traces = Metrics(actor, Watchdog(actor)), Traces(actor, exporter)
    await actor.start()
    await actor.begin("own:1", "worker", "begin", {}, {})
    for _ in range(20):
        await asyncio.sleep(0)
    await actor.tell("own:1", "worker", "rest")
    text = metrics.render().decode()
    for result, count in (("given_up", 1), ("well", 0), ("failed", 0), ("unawaited", 0)):
        assert f'leasehold_handler_calls_total{{result="{result}",verb="saw"}} {count}.0' in text
    assert 'leasehold_handler_calls_total{result="unawaited",verb="sweep"} 1.0' in text
    assert traces.flush()
    spans = exporter.get_finished_spans()
    saws = [span for span in spans if span.name == "handler.saw"]
    assert [dict(span.attributes or {})["leasehold.result"] for span in saws] == ["given_up"]
    roots = [dict(span.attributes or {})["leasehold.lease"] for span in spans if span.name == "lease"]
    assert roots == ["own:1"]
    asked = list[int]()
    traces._provider.force_flush = lambda millis: not asked.append(millis)  # type: ignore[assignment, func-returns-value, method-assign]
    assert traces.flush()
    assert traces.flush(0.25)
    assert asked == [5000, 250]
    metrics.close()
    traces.close()
    await actor.stop()


@pytest.mark.parametrize(
    ("told", "role", "found"),
    [
        ("", "worker", "worker"),
        ("", "tool", ""),
        ("tool[1]", "tool", "tool[1]"),
        ("worker", "worker", "worker"),
    ],
)
async def test_the_other_end_of_a_message_is_as_told_or_a_role_s_only_machine(
    told: str, role: str, found: str, bench: Any
) -> None:
    async with bench as b:
        traces = Traces(b.actor, InMemorySpanExporter())
        data = {"peer": told} if told else {}
        assert traces._other_end(Notice(Kind.SEND, "own", "own:1", "worker", "x", 0, data), role) == found
        traces.close()


async def test_a_histogram_has_the_buckets_of_its_row(bench: Any) -> None:
    async with bench as b:
        metrics = Metrics(b.actor, Watchdog(b.actor))
        text = metrics.render().decode()
        rows = {name: row for name, row in table("leasehold.impl.observe", "metrics.yaml").items() if "buckets" in row}
        assert rows
        for name, row in rows.items():
            found = re.findall(rf'^leasehold_{name}_bucket{{le="([^"]*)"[^}}]*}}', text, re.MULTILINE)
            assert [*map(float, found)][: len(row["buckets"])] == [*map(float, row["buckets"])], name
        metrics.close()


# The journal


DATA: dict[str, Any] = {
    "from": "a",
    "to": "b",
    "kind": "ignored",
    "reason": "late",
    "well": False,
    "machines": 7,
    "secret": "gold",
}
ENTRIES: dict[Kind, tuple[str, dict[str, Any]]] = {
    Kind.TRANSITION: ("a -> b on e", {"transition": "r/a#e", "from": "a", "to": "b"}),
    Kind.IGNORED: (
        "r/a#e moves nothing in a: ignored, late",
        {"event": "r/a#e", "result": "ignored", "reason": "late", "from": "a"},
    ),
    Kind.REFUSED: ("a message was refused: late", {"reason": "late"}),
    Kind.CALL: ("calls r/a#e", {"call": "r/a#e"}),
    Kind.ANSWERED: ("the handler answers r/a#e", {"event": "r/a#e", "well": False}),
    Kind.COMMITTED: ("committed 7 machines", {"machines": 7}),
    Kind.RECOVERED: ("recovered 7 machines, epoch 1", {"machines": 7, "epoch": 1}),
    Kind.STOPPED: ("takes no more steps: late", {"reason": "late"}),
}
SHOWN = {
    Kind.TRANSITION: "INFO",
    Kind.IGNORED: "DEBUG",
    Kind.REFUSED: "WARNING",
    Kind.CALL: "DEBUG",
    Kind.ANSWERED: "DEBUG",
    Kind.COMMITTED: "DEBUG",
    Kind.RECOVERED: "INFO",
    Kind.STOPPED: "ERROR",
}


@pytest.mark.parametrize("kind", Kind)
async def test_each_kind_of_notice_has_its_level_its_words_and_its_fields(
    kind: Kind, bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """With the lease and the machine, where it is about one; and nothing else that a notice brings."""
    assert LEVELS.keys() == ENTRIES.keys() == SHOWN.keys()

    caplog.set_level(logging.DEBUG, "leasehold.journal")
    async with bench as b:
        tells = Journal(b.actor)
        for lease, machine, whose in (
            ("own:1", "worker", {"lease": "own:1", "machine": "worker"}),
            (BELOW, "tool[0]", {"lease": "own:1", "machine": "tool[0]"}),
            (BELOW, "tool[7]", {"machine": "tool[7]"}),
            ("own:1", "", {"lease": "own:1"}),
            ("", "", {}),
        ):
            caplog.clear()
            tells(Notice(kind, "own", lease, machine, "r/a#e", 3, DATA))
            records = [record for record in caplog.records if record.name == "leasehold.journal"]
            if kind not in ENTRIES:
                assert records == []
                continue
            (record,) = records
            words, fields = ENTRIES[kind]
            place = f"{' '.join(whose.values())}: " if whose else ""
            assert (record.levelname, record.getMessage()) == (SHOWN[kind], place + words)
            assert about(record) == {"actor": "own", "now": 3, **whose, **fields}
        tells.close()


async def test_an_event_that_moved_nothing_without_a_reason_ends_with_its_kind(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "leasehold.journal")
    async with bench as b:
        caplog.clear()
        Journal(b.actor)(Notice(Kind.IGNORED, "own", "own:1", "worker", "e", 3, {**DATA, "reason": ""}))
        assert caplog.records[-1].getMessage() == "own:1 worker: e moves nothing in a: ignored"


async def test_strangers_fill_no_log(
    bench: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty refusals at once, and one more with each second; all else is told however often it comes."""
    now = [100.0]
    monkeypatch.setattr(journal.time, "monotonic", lambda: now[0])

    def count(b: Journal, times: int, kind: Kind = Kind.REFUSED) -> int:
        caplog.clear()
        for _ in range(times):
            b(Notice(kind, "own", "", "", "r/a#e", 0, DATA))
        return len([record for record in caplog.records if record.name == "leasehold.journal"])

    caplog.set_level(logging.INFO, "leasehold.journal")
    async with bench as b:
        tells = Journal(b.actor)
        assert count(tells, 50) == 20
        now[0] += 3.0
        assert count(tells, 50) == 3
        assert count(tells, 50, Kind.TRANSITION) == 50
        now[0] += 1000.0
        assert count(tells, 50) == 20
        tells.close()
