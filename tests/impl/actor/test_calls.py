"""Handler calls: one at a time on a unit, tried again, given up, and answered once."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from leasehold.impl.actor.calls import HandlerCalls
from leasehold.impl.actor.environment import RetryPolicy
from leasehold.impl.actor.ready import Complete
from leasehold.impl.actor.table import BELOW, MachineInstance
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Core
from leasehold.impl.core.work import CallWork
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, NotBegun, NullHandler
from leasehold.impl.store.store import RecordKey
from tests.systems import load

PROGRAM = compile_system(load("lease"))
SETUP = CallWork("setup", "handler.setup", ("up", "broken"))
JOIN = CallWork("join", "handler.join", ("joined", "join_failed"))
RETRY = RetryPolicy(tries=3, pause=10.0, longest=60.0)


def unit(number: int = 0) -> MachineInstance:
    core = PROGRAM.roles["unit"]
    return _machine(core, RecordKey(BELOW, core.machine(number)), number)


def lease(name: str = "tenant:1") -> MachineInstance:
    return _machine(PROGRAM.roles["service_manager"], RecordKey(name, "service_manager"), 0)


def _machine(core: Core, key: RecordKey, number: int) -> MachineInstance:
    below = tuple((other.first(0),) for other in core.below)
    return MachineInstance(key, core, core.first(number, below), [])


def action(number: int, verb: str = "setup") -> HandlerAction:
    return HandlerAction(verb, "tenant:1", "unit-0", number, {})


class Site(NullHandler):
    """A handler that does what a test says, and writes down when each action begins and ends."""

    def __init__(self, does: Callable[[HandlerAction], Coroutine[Any, Any, Any]]) -> None:
        self._does, self.said, self.begun = does, list[tuple[float, str, int]](), list[float]()
        self.answers: list[tuple[str, str, int, Done]] = []
        self.calls = HandlerCalls(
            lambda role, target: None if target == "handler.modify" else self, self._answered, RETRY
        )

    def _answered(self, end: Complete) -> None:
        self.answers.append((end.key.machine, end.event, end.epoch, end.done))

    def _note(self, what: str, number: int) -> None:
        self.said.append((asyncio.get_running_loop().time(), what, number))

    async def act(self, given: HandlerAction) -> Done:
        self._note("begins", given.number)
        try:
            done: Done = await self._does(given)
            return done
        finally:
            self._note("ends", given.number)

    @property
    def events(self) -> list[str]:
        return [event for _, event, _, _ in self.answers]


async def well(given: HandlerAction) -> Done:
    await asyncio.sleep(5)
    return Done(True, facts={"pid": given.number})


async def test_an_action_is_answered_once_with_its_facts_and_the_epoch_of_its_state() -> None:
    site, machine = Site(well), unit()
    site.calls.begin(machine, SETUP, action(1))
    assert (site.calls.under_way(), list(site.calls.of(machine.key))) == (1, ["action"])
    assert list(site.calls.of(unit(1).key)) == []
    await asyncio.sleep(100)
    assert site.answers == [("unit[0]", "up", 0, Done(True, "", {"pid": 1}))]
    assert (site.calls.under_way(), len(site.said)) == (0, 2)


@pytest.mark.parametrize("quick", [True, False])
async def test_actions_on_one_unit_never_overlap_however_many_there_are(quick: bool) -> None:
    """Each that is cancelled takes a while to end, and is cancelled but once."""
    cancelled: list[int] = []

    async def slow_to_end(given: HandlerAction) -> Done:
        try:
            await asyncio.sleep(50)
        except asyncio.CancelledError:
            cancelled.append(given.number)
            await asyncio.sleep(7)
            raise
        return Done(True)

    site, machine = Site(slow_to_end), unit()
    other = Site(slow_to_end)
    for number in range(1, 5):
        site.calls.begin(machine, SETUP, action(number))
        site.calls.begin(unit(1), SETUP, action(number + 10))  # another unit is not waited for
        if not quick:
            await asyncio.sleep(1)
    assert other.said == []
    await asyncio.sleep(200)
    for low, high in ((1, 5), (11, 15)):
        mine = [(what, number) for _, what, number in site.said if low <= number < high]
        begins, ends = mine[::2], mine[1::2]
        assert [("begins", number) for _, number in ends] == begins
        assert mine[-1] == ("ends", high - 1)
    assert site.events == ["up", "up"]
    assert len(cancelled) == len(set(cancelled))


async def test_a_failure_is_tried_again_and_then_answered() -> None:
    ends = iter([Done(False, "busy"), ValueError("no"), Done(True)])

    async def third_time(given: HandlerAction) -> Done:
        end = next(ends)
        if isinstance(end, Exception):
            raise end
        return end

    async def never(given: HandlerAction) -> Done:
        raise KeyError(given.unit)

    site = Site(third_time)
    site.calls.begin(unit(), SETUP, action(1))
    await asyncio.sleep(100)
    assert [at for at, what, _ in site.said if what == "begins"] == [0, 10, 20]
    assert site.events == ["up"]

    site = Site(never)
    site.calls.begin(unit(), SETUP, action(1))
    await asyncio.sleep(100)
    assert len(site.said) == 2 * RETRY.tries
    assert [(event, done.well, done.words) for _, event, _, done in site.answers] == [
        ("broken", False, "KeyError: 'unit-0'")
    ]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (asyncio.CancelledError(), "it has cancelled itself"),
        (SystemExit(3), "SystemExit: 3"),
        (None, "which is no Done"),
    ],
)
async def test_a_strange_end_is_a_failure(end: BaseException | None, words: str) -> None:
    async def strange(given: HandlerAction) -> Any:
        if end is not None:
            raise end

    site = Site(strange)
    site.calls.begin(unit(), SETUP, action(1))
    await asyncio.sleep(100)
    assert site.events == ["broken"]
    assert words in site.answers[0][3].words


async def test_an_action_that_does_not_end_is_given_up_in_time() -> None:
    async def hangs(given: HandlerAction) -> Done:
        await asyncio.Event().wait()
        return Done(True)

    site = Site(hangs)
    site.calls.begin(unit(), SETUP, action(1))
    await asyncio.sleep(300)
    begins = [at for at, what, _ in site.said if what == "begins"]
    assert begins == [0, 70, 140]
    assert [(event, done.words) for _, event, _, done in site.answers] == [("broken", "it did not end within 60 s")]


async def test_a_state_that_was_left_gives_its_tasks_up_and_no_others() -> None:
    site, first, second = Site(well), lease(), lease("tenant:2")
    leave = CallWork("leave", "handler.leave", ("close",))
    for machine in (first, second):
        site.calls.begin(machine, JOIN, action(1, "join"))
        site.calls.begin(machine, leave, action(2, "leave"))
    site.calls.begin(unit(), SETUP, action(3))
    assert sorted(site.calls.of(first.key)) == ["join", "leave"]
    site.calls.keep(first.key, frozenset({"leave"}))
    site.calls.keep(unit().key, frozenset())  # what a unit does goes on until its next action
    await asyncio.sleep(100)
    assert sorted(site.events) == ["close", "close", "joined", "up"]


async def test_a_task_that_outlives_its_state_is_begun_once() -> None:
    join = CallWork("join", "handler.join", ("joined",), outlives=True)

    site, machine = Site(well), lease()
    site.calls.begin(machine, join, action(1, "join"))
    await asyncio.sleep(2)
    site.calls.begin(machine, join, action(2, "join"))  # a state that only remembers it
    await asyncio.sleep(100)
    assert ([number for _, what, number in site.said if what == "begins"], site.events) == ([1], ["joined"])
    site.calls.begin(machine, join, action(3, "join"))  # its end was lost: recovery begins it again
    await asyncio.sleep(100)
    assert site.events == ["joined", "joined"]
    assert not site.calls._outliving  # of what has ended nothing is left


async def test_the_end_waits_for_what_is_under_way_and_answers_nothing() -> None:
    ended: list[int] = []

    async def slow(given: HandlerAction) -> Done:
        try:
            await asyncio.sleep(50)
        finally:
            await asyncio.sleep(3)
            ended.append(given.number)
        return Done(True)

    site = Site(slow)
    site.calls.begin(unit(), SETUP, action(1))
    site.calls.begin(lease(), JOIN, action(2, "join"))
    await asyncio.sleep(1)
    site.calls.begin(unit(), SETUP, action(3))
    await site.calls.close()
    assert (sorted(ended), site.calls.under_way()) == ([1, 2], 0)
    await asyncio.sleep(500)
    assert site.answers == []


async def test_a_verb_without_a_handler_is_said(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(well)
    with caplog.at_level(logging.ERROR):
        site.calls.begin(unit(), CallWork("modify", "handler.modify", ("changed",)), action(1, "modify"))
    assert site.calls.under_way() == 0
    assert "- unit[0]: no handler for handler.modify" in caplog.text


def crowded(does: Callable[[HandlerAction], Coroutine[Any, Any, Any]], at_once: int = 2) -> Site:
    """A site that lets few actions be under way at once, each with one try."""
    site = Site(does)
    site.calls = HandlerCalls(lambda *call: site, site._answered, RetryPolicy(1, 10.0, 60.0, at_once))
    return site


async def test_no_more_actions_than_the_most_are_under_way_and_the_others_begin_in_order() -> None:
    site = crowded(well)
    for number in range(7):
        site.calls.begin(unit(number), SETUP, action(number))
    await asyncio.sleep(1)
    assert (site.calls.under_way(), site.calls.waiting) == (7, 5)
    await asyncio.sleep(100)
    begins = [(at, number) for at, what, number in site.said if what == "begins"]
    assert begins == [(0, 0), (0, 1), (5, 2), (5, 3), (10, 4), (10, 5), (15, 6)]
    assert (site.events, site.calls.under_way(), site.calls.waiting) == (["up"] * 7, 0, 0)


async def test_an_action_that_is_given_up_leaves_the_line_and_the_place_goes_to_the_next() -> None:
    """Also one whose turn comes in the moment in which it is given up."""

    site = crowded(well, at_once=1)
    for number in range(5):
        site.calls.begin(unit(number), SETUP, action(number))
    await asyncio.sleep(1)
    site.calls.begin(unit(1), SETUP, action(11))  # a newer one of the same unit, which comes last now
    await asyncio.sleep(3.999)
    asyncio.get_running_loop().call_later(0.001, site.calls.begin, unit(2), SETUP, action(12))
    await asyncio.sleep(100)
    assert [number for _, what, number in site.said if what == "begins"][:3] in ([0, 2, 3], [0, 3, 4])
    assert {number for _, what, number in site.said if what == "ends"} >= {0, 3, 4, 11, 12}
    assert sorted(name for name, *_ in site.answers) == [f"unit[{number}]" for number in range(5)]
    assert (site.calls.under_way(), site.calls.waiting) == (0, 0)
    for number in range(20, 22):  # no place was lost, and none was made
        site.calls.begin(unit(number), SETUP, action(number))
    await asyncio.sleep(1)
    assert (site.calls.under_way(), site.calls.waiting) == (2, 1)
    await site.calls.close()
    assert (site.calls.under_way(), site.calls.waiting) == (0, 0)


async def test_an_action_that_waits_for_the_one_before_it_takes_no_place() -> None:
    async def slow_to_end(given: HandlerAction) -> Done:
        try:
            return await well(given)
        except asyncio.CancelledError:
            await asyncio.sleep(20)
            raise

    site = crowded(slow_to_end)
    site.calls.begin(unit(), SETUP, action(1))
    await asyncio.sleep(1)
    site.calls.begin(unit(), SETUP, action(2))
    site.calls.begin(unit(1), SETUP, action(3))
    await asyncio.sleep(100)
    assert [(at, number) for at, what, number in site.said if what == "begins"] == [(0, 1), (1, 3), (21, 2)]


async def test_an_action_that_hangs_holds_up_the_others_no_longer_than_its_limit() -> None:
    """Each try waits anew, so that one that is tried again does not come before those that were never tried."""

    async def hangs(given: HandlerAction) -> Done:
        if given.number == 1:
            await asyncio.Event().wait()
        return Done(True)

    site = Site(hangs)
    site.calls = HandlerCalls(lambda *call: site, site._answered, RetryPolicy(2, 0.0001, 60.0, 1))
    for number in (1, 2, 3):
        site.calls.begin(unit(number), SETUP, action(number))
    await asyncio.sleep(300)
    assert [(at, number) for at, what, number in site.said if what == "begins"][:3] == [(0, 1), (60, 2), (60, 3)]
    assert site.events == ["up", "up", "broken"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "no descriptors"),
        OSError(errno.EAGAIN, "no processes"),
        OSError(errno.ENOMEM, "no memory"),
        MemoryError(),
        NotBegun("there is no room"),
    ],
    ids=repr,
)
async def test_an_action_that_could_not_be_begun_has_not_failed(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """However often that is so; the pauses grow, and failures before and after it are counted as ever."""
    ends = iter([error] * 8 + [HandlerError("one")] + [error] * 3 + [HandlerError("two"), None])

    async def does(given: HandlerAction) -> Done:
        if (end := next(ends)) is not None:
            raise end
        return Done(True)

    site = Site(does)
    site.calls.begin(unit(), SETUP, action(1))
    await asyncio.sleep(10 * (1 + 2 + 4 + 8 + 16 + 32 * 6))
    assert site.events == ["up"]
    assert (site.calls.counts["not begun"], site.calls.waiting) == (11, 0)
    said = [record.getMessage() for record in caplog.records]
    assert len([words for words in said if "could not be begun, and is tried again" in words]) <= 5
    assert len([words for words in said if "failed:" in words]) == 2


async def test_a_call_that_cannot_be_begun_can_be_given_up() -> None:
    async def does(given: HandlerAction) -> Done:
        raise NotBegun("never")

    site, machine = Site(does), unit()
    site.calls.begin(machine, SETUP, action(1))
    await asyncio.sleep(1000)
    site.calls.forget(machine.key)
    await asyncio.sleep(1)
    assert (site.calls.under_way(), site.answers) == (0, [])


async def test_the_time_of_a_try_begins_when_its_handler_can_begin_it() -> None:
    """Sixty-four that are stubborn keep nobody from having a whole try: those behind them wait, and have not begun."""

    stubborn = 64

    async def does(given: HandlerAction) -> Done:
        await asyncio.sleep(50 if given.number < stubborn else 5)
        return Done(given.number >= stubborn, "it does not end")

    site = Site(does)
    site.parallel = 8  # type: ignore[attr-defined]
    core = PROGRAM.roles["unit"]
    for number in range(stubborn + 16):
        key = RecordKey(BELOW, f"unit[{number}]")
        site.calls.begin(_machine(core, key, 0), SETUP, action(number))
    await asyncio.sleep(1)
    assert (len(site.said), site.calls.waiting) == (8, stubborn + 16 - 8)
    await asyncio.sleep(1500)
    assert sorted(site.events) == ["broken"] * stubborn + ["up"] * 16
    assert {done.words for _, event, _, done in site.answers if event == "broken"} == {"it does not end"}
    assert site.calls.waiting == 0


async def test_who_is_given_up_while_it_waits_for_its_handler_leaves_the_line() -> None:
    site = Site(well)
    site.parallel = 1  # type: ignore[attr-defined]
    core = PROGRAM.roles["unit"]
    machines = [_machine(core, RecordKey(BELOW, f"unit[{n}]"), 0) for n in range(4)]
    for number, machine in enumerate(machines):
        site.calls.begin(machine, SETUP, action(number))
    await asyncio.sleep(1)
    for machine in machines[1:3]:
        site.calls.forget(machine.key)
    await asyncio.sleep(20)
    assert [number for _, _, number in site.said] == [0, 0, 3, 3]
    assert site.calls.under_way() == site.calls.waiting == 0


@pytest.mark.parametrize(
    ("end", "unsure"),
    [
        (Done(True), False),
        (Done(False, "no"), True),
        (HandlerError("no"), True),
        (Done(True, answer="other"), True),
        (Done(False, answer="broken"), True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("answers", [SETUP.answers, ()])
async def test_a_machine_is_unsure_from_the_beginning_of_an_action_until_one_ends_well(
    end: Done | Exception, unsure: bool, answers: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Machines whose last action has not ended well are known, with the call's answers and without any."""
    unsure = unsure and not (end == Done(True, answer="other") and not answers)
    call = CallWork("setup", "handler.setup", answers)

    async def does(given: HandlerAction) -> Done:
        await asyncio.sleep(5)
        if given.number == 2:
            return Done(True)
        if isinstance(end, Exception):
            raise end
        return end

    site, machine = Site(does), unit()
    site.calls.begin(machine, call, action(1))
    assert site.calls.unsure == {machine.key}
    await asyncio.sleep(4)
    assert site.calls.unsure == {machine.key}
    await asyncio.sleep(500)
    assert site.calls.unsure == ({machine.key} if unsure else set())
    assert len(site.answers) == (1 if answers else 0)
    site.calls.begin(machine, call, action(2))
    site.calls.forget(machine.key)
    await asyncio.sleep(50)
    assert site.calls.unsure == {machine.key}, "it was given up"
    site.calls.begin(machine, call, action(2))
    await asyncio.sleep(50)
    assert site.calls.unsure == set()
    assert "has no answer" not in caplog.text


@pytest.mark.parametrize(
    ("done", "event", "words"),
    [
        (Done(True, "fine", {"pid": 1}, "other"), "broken", "it answered 'other'"),
        (Done(False, "bad", {"pid": 1}, "other"), "broken", "it answered 'other'"),
        (Done(True, "fine", {"pid": 1}, "", {"no": 1}), "broken", "does not fit the specification"),
        (Done(True, "fine", {"pid": 1}, "broken"), "broken", "fine"),
        (Done(False, "bad", {"pid": 1}, "up"), "up", "bad"),
        (Done(False, "bad", {"pid": 1}), "broken", "bad"),
    ],
)
async def test_a_result_whose_answer_does_not_fit_is_a_failure_with_the_same_facts(
    done: Done, event: str, words: str
) -> None:
    """Answers outside of the specification end the call by its last answer; what is known of the unit is kept."""

    async def does(given: HandlerAction) -> Done:
        return done

    site = Site(does)
    site.calls.begin(unit(), SETUP, action(1))
    await asyncio.sleep(100)
    ((_, said, _, told),) = site.answers
    assert (said, told.facts) == (event, {"pid": 1})
    assert words in told.words
    assert len([1 for _, what, _ in site.said if what == "begins"]) == (1 if told.well else RETRY.tries)


@pytest.mark.parametrize("machine", [unit(), lease()], ids=["unit", "lease"])
@pytest.mark.parametrize("outlives", [False, True])
@pytest.mark.parametrize("anew", [False, True])
async def test_what_a_second_beginning_does(machine: MachineInstance, outlives: bool, anew: bool) -> None:
    """A call takes the place of the one before it, except one that outlives its state and is not begun anew."""
    setup = CallWork("setup", "handler.setup", SETUP.answers, outlives)
    join = CallWork("join", "handler.join", ("joined",), outlives)
    call = setup if machine.core.subsidiary else join

    site = Site(well)
    site.calls.begin(machine, call, action(1))
    await asyncio.sleep(2)
    site.calls.begin(machine, call, action(2), anew)
    name = call.task if outlives or not machine.core.subsidiary else "action"
    assert list(site.calls.of(machine.key)) == [name]
    await asyncio.sleep(50)
    begun = [(at, number) for at, what, number in site.said if what == "begins"]
    assert begun == ([(0, 1)] if outlives and not anew else [(0, 1), (2, 2)])
    assert site.events == [call.answers[0]]


@pytest.mark.parametrize("last", ["begin", "keep", "forget", "close"])
async def test_what_an_action_still_does_before_it_ends_is_not_interrupted(last: str) -> None:
    """A run is cancelled once, however often it is given up meanwhile."""
    ended = list[tuple[float, int]]()

    async def tidies(given: HandlerAction) -> Done:
        try:
            await asyncio.sleep(500)
        finally:
            await asyncio.sleep(30)
            ended.append((asyncio.get_running_loop().time(), given.number))
        return Done(True)

    site = Site(tidies)
    machine = lease() if last == "keep" else unit()
    call = JOIN if last == "keep" else SETUP
    site.calls.begin(machine, call, action(1))
    for at in (1, 2):
        await asyncio.sleep(1)
        site.calls.begin(machine, call, action(at + 1))
    await asyncio.sleep(1)
    if last == "begin":
        site.calls.begin(machine, call, action(4))
    elif last == "keep":
        site.calls.keep(machine.key, frozenset())
    elif last == "forget":
        site.calls.forget(machine.key)
    await asyncio.sleep(1)
    await site.calls.close()
    assert ended == [(31.0, 1)]
    assert (site.calls.under_way(), site.answers) == (0, [])


async def test_who_waits_for_a_handler_takes_no_place_of_the_others() -> None:
    """A line before one handler leaves the places of all to the actions of other handlers."""

    narrow, wide = Site(well), Site(well)
    narrow.parallel = 1  # type: ignore[attr-defined]
    calls = HandlerCalls(
        lambda role, target: narrow if target == "handler.setup" else wide,
        wide._answered,
        RetryPolicy(1, 10.0, 60.0, 2),
    )
    for number in range(4):
        calls.begin(unit(number), SETUP, action(number))
    for number in range(2):
        calls.begin(lease(f"tenant:{number}"), JOIN, action(number, "join"))
    await asyncio.sleep(100)
    begins = [[at for at, what, _ in site.said if what == "begins"] for site in (narrow, wide)]
    assert begins == [[0, 5, 10, 15], [0, 5]]


@pytest.mark.parametrize("parallel", [1, 2, 3])
@pytest.mark.parametrize("given_up", ["replaced", "not kept", "forgotten"])
async def test_who_is_given_up_in_the_line_of_all_leaves_the_place_of_its_handler(parallel: int, given_up: str) -> None:
    """A handler has as many calls under way afterwards as it lets in, also where it happened more often than that."""
    narrow, wide = Site(well), Site(well)
    narrow.parallel = parallel  # type: ignore[attr-defined]
    calls = HandlerCalls(
        lambda role, target: narrow if target == "handler.setup" else wide,
        wide._answered,
        RetryPolicy(1, 10.0, 60.0, 4),
    )
    for number in range(4):  # they have all places, for 5 seconds
        calls.begin(lease(f"tenant:{number}"), JOIN, action(number, "join"))
    for number in range(parallel):
        calls.begin(unit(number), SETUP, action(number))
    await asyncio.sleep(1)
    for number in range(parallel):
        if given_up == "replaced":
            calls.begin(unit(number), SETUP, action(10 + number))
        elif given_up == "not kept":
            calls.keep(unit(number).key, frozenset())
        else:
            calls.forget(unit(number).key)
    await asyncio.sleep(30)
    assert (calls.under_way(), calls.waiting) == (0, 0)
    for number in range(20, 20 + 2 * parallel):
        calls.begin(unit(number), SETUP, action(number))
    await asyncio.sleep(1)
    assert (calls.under_way(), calls.waiting) == (2 * parallel, parallel)
    await asyncio.sleep(30)
    begun = [number for _, what, number in narrow.said if what == "begins"]
    assert begun[-2 * parallel :] == list(range(20, 20 + 2 * parallel))
    assert calls.under_way() == 0
