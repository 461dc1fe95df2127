"""Tasks at a running actor: the identifier of their start (paper, section 3.4), and their answers' typed fields."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, RetryPolicy
from leasehold.impl.core.core import Program
from leasehold.impl.core.values import OPAQUE_BYTES
from leasehold.impl.core.work import CallWork
from leasehold.impl.handlers.command import CommandHandler
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, NullHandler, answer_of
from leasehold.impl.handlers.simulated import SimulatedHandler
from leasehold.impl.lease.fleet import SITE
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from leasehold.spec.language.types import OPAQUE
from tests.impl.actor.alone import alone, program_of
from tests.impl.virtual import virtual
from tests.systems import TESTS

SHOP = TESTS / "impl/actor/systems/shop"
FOUND: dict[str, Any] = {"count": 3, "good": True, "colour": "green", "colours": ["red"], "last": None, "by": 2}
RUN = RecordKey("own:1", "owner")


@pytest.fixture
def shop() -> Program:
    return program_of(SHOP)


class Looks(NullHandler):
    """A handler whose results a test gives, the last one again and again; it writes down its actions."""

    def __init__(self, *results: Any) -> None:
        self.results, self.actions = list(results), list[HandlerAction]()

    async def act(self, action: HandlerAction) -> Any:
        self.actions.append(action)
        if not self.results:
            await asyncio.get_running_loop().create_future()
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]


def made(program: Program, disk: Disk, handler: Any) -> Actor:
    options = ActorOptions(seed=0, retry=RetryPolicy(tries=2, pause=0.1))
    return alone(program, "owner", MemoryStore(disk), {"look": handler}, SimulatedClock(), options=options)


def answered(program: Program, handler: Any) -> tuple[str, dict[str, Any]]:
    """The state and data of a run that has asked a handler once."""

    async def story() -> tuple[str, dict[str, Any]]:
        actor = made(program, Disk(), handler)
        await actor.start()
        await actor.begin(*RUN, "order", {}, {})
        await asyncio.sleep(1)
        held = actor.table.instances[RUN]
        assert actor.running
        await actor.stop()
        return held.state, held.core.view(held.record)

    return virtual(story())


def test_an_answer_carries_fields_of_every_type(shop: Program) -> None:
    state, data = answered(shop, Looks(Done(True, fields=FOUND)))
    assert state == "idle"
    assert data == {**FOUND, "colours": frozenset({"red"}), "orders": 0}
    state, data = answered(shop, Looks(Done(True, fields={**FOUND, "last": "red", "by": "clerk[1]"})))
    assert (data["last"], data["by"]) == ("red", 1)


@pytest.mark.parametrize(
    ("done", "count", "colour"),
    [
        (Done(True, answer="none_left"), 7, "red"),
        (Done(False, answer="failed", fields={"why": "green"}), 0, "green"),
        (Done(False, fields={"why": "green"}), 0, "green"),
        (Done(False, answer="found", fields=FOUND), 3, "green"),
    ],
)
def test_a_handler_names_the_event_that_ends_its_task(shop: Program, done: Done, count: int, colour: str) -> None:
    state, data = answered(shop, Looks(done))
    assert (state, data["count"], data["colour"]) == ("idle", count, colour)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (Done(True), "its answer `found` does not fit the specification: field `count` is missing"),
        (Done(True, fields={**FOUND, "count": "3"}), "field `count`: '3' is no int"),
        (Done(True, fields={**FOUND, "count": 10}), "field `count`: 10 is not within 0..9"),
        (Done(True, fields={**FOUND, "good": 1}), "field `good`: 1 is no bool"),
        (Done(True, fields={**FOUND, "colour": "gren"}), "'gren' is none of red, green; did you mean `green`?"),
        (Done(True, fields={**FOUND, "colours": ["red", "red"]}), "names a member twice"),
        (Done(True, fields={**FOUND, "last": 0}), "field `last`: 0 is none of red, green"),
        (Done(True, fields={**FOUND, "by": 3}), "field `by`: 3 is not within 0..2"),
        (Done(True, fields={**FOUND, "by": "clerk[3]"}), "is none of clerk[0] to clerk[2]"),
        (Done(True, fields={**FOUND, "coun": 1}), "there is no field 'coun'; did you mean `count`?"),
        (Done(True, answer="order"), "it answered 'order', and handler.look ends by found, none_left, failed"),
        (Done(True, answer=7), "its answer is 7 with {}; it needs a name and a mapping"),  # type: ignore[arg-type]
        (Done(True, fields=[1]), "its answer is '' with [1]; it needs a name and a mapping"),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_does_not_fit_is_a_failure_that_is_tried_again(
    shop: Program, result: Done, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Looks(result, Done(True, answer="none_left"))
    with caplog.at_level(logging.WARNING):
        state, data = answered(shop, handler)
    assert "look of own:1 failed: its answer" in caplog.text or "look of own:1 failed: it answered" in caplog.text
    assert words in caplog.text
    assert (state, data["count"], len(handler.actions)) == ("idle", 7, 2)


def test_what_a_handler_says_has_a_largest_size() -> None:
    call, events = CallWork("look", "handler.look", ("found",)), {"found": (("said", OPAQUE),)}
    largest = {"a": "x" * (OPAQUE_BYTES - len('{"a":""}'))}
    assert answer_of(call, events, Done(True, fields={"said": largest})) == ("found", (largest,))
    with pytest.raises(HandlerError, match="field `said`: it has 16385 bytes, and 16384 are the most"):
        answer_of(call, events, Done(True, fields={"said": {"a": largest["a"] + "x"}}))


def test_a_failure_that_no_event_can_say_is_logged_and_the_task_goes_on_waiting(
    shop: Program, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        state, _ = answered(shop, Looks(Done(False, "the shelf is broken")))
    assert state == "looking"
    assert "look of own:1 has no answer: its answer `failed` does not fit" in caplog.text


def test_a_command_answers_with_its_last_line(shop: Program, caplog: pytest.LogCaptureFixture) -> None:
    async def story(*lines: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
        script = f'[ "$LEASEHOLD_VERB" = look ] || exit 9; f={len(lines)}; echo "{lines[0]}"'
        actor = made(shop, Disk(), CommandHandler(look=["sh", "-c", script]))
        await actor.start()
        await actor.begin(*RUN, "order", {}, {})
        for _ in range(200):
            held = actor.table.instances[RUN]
            if held.state == "idle":
                break
            await asyncio.sleep(0.02)
        await actor.stop()
        return held.state, held.core.view(held.record), held.metadata.get("facts", {})

    line = json.dumps({"shelf": 4, "answer": "found", "fields": FOUND}).replace('"', '\\"')
    state, data, facts = asyncio.run(story(line))
    assert (state, data["count"], data["colour"], facts) == ("idle", 3, "green", {"shelf": 4})


# Identifiers


async def test_a_restarted_task_keeps_its_identifier_and_a_new_entry_gets_another(shop: Program) -> None:
    disk, handler = Disk(), Looks()

    actor = made(shop, disk, handler)
    await actor.start()
    await actor.begin(*RUN, "order", {}, {})
    await asyncio.sleep(0.01)
    for _ in range(2):
        await actor.kill()
        disk.crash()
        actor = made(shop, disk, handler)
        await actor.start()
        await asyncio.sleep(0.01)
    await actor.recover(*RUN)
    await actor.tell(*RUN, "order")  # the state is entered again
    await asyncio.sleep(0.01)
    await actor.stop()
    assert [(a.task, a.incarnation) for a in handler.actions] == [
        ("own:1/owner/look/1", 1),
        ("own:1/owner/look/1", 2),
        ("own:1/owner/look/1", 3),
        ("own:1/owner/look/1", 3),
        ("own:1/owner/look/2", 3),
    ]
    numbers = [a.number for a in handler.actions]
    assert numbers == sorted(set(numbers))


async def test_units_too_are_set_up_under_one_identifier_by_every_incarnation() -> None:
    """Of a unit, whose machine outlives leases, the identifier goes on from lease to lease, and never comes again."""

    class Slow(SimulatedHandler):
        wait = True

        async def act(self, action: HandlerAction) -> Done:
            done = await super().act(action)
            if self.wait and action.verb == "setup":
                await asyncio.sleep(1e6)
            return done

    handler = Slow()

    async def began(c: Cluster, lease: str) -> str:
        await c.tenant.command("service_manager", "demand", lease, 1, 60, 30)
        await asyncio.sleep(1)
        return lease

    async with Cluster(units=1, handler=handler) as c:
        first = await began(c, "tenant:1")
        for n in range(2):
            handler.wait = n == 0
            await c.kill(SITE)
            await c.start(SITE)
            await asyncio.sleep(0.5)
        assert c.state(first) == ("active", "ticketed", "active")
        tasks = list(handler.world.units["unit-0"].tasks)
        assert tasks == [(tasks[0][0], n) for n in (1, 2, 3)]
        assert tasks[0][0].startswith("site/unit[0]/run_setup/")
        await c.tenant.tell(first, "service_manager", "close")
        await asyncio.sleep(1)
        await c.settle()
        second = await began(c, "tenant:2")
        await c.settle()
        assert c.state(second)[2] == "active"
        later = [task for task, _ in handler.world.units["unit-0"].tasks[3:]]
        assert len({tasks[0][0], *later}) == len(later) + 1


LIFE = """
import asyncio, sys
from pathlib import Path
from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.handlers.command import CommandHandler
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.compiler.program import compile_system
from leasehold.spec import load
from tests.impl.actor.alone import alone

async def main(system, folder, word):
    script = f'echo $LEASEHOLD_TASK $LEASEHOLD_INCARNATION $LEASEHOLD_NUMBER >>{folder}/said; sleep 600'
    handler = CommandHandler(look=["sh", "-c", script], directory=folder / "locks")
    program, store = compile_system(load(system)), SqliteStore(folder / "own.db")
    actor = alone(program, "owner", store, {"look": handler}, SimulatedClock())
    await actor.start()
    if word == "order":
        await (actor.tell if actor.table.instances else actor.begin)(
            "own:1", "owner", "order", {}, *([] if actor.table.instances else [{}])
        )
    print("serves", flush=True)
    await asyncio.sleep(600)

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
"""


def test_kill_9_and_the_identifier_is_the_same(tmp_path: Path) -> None:
    """Real processes: an executable is told the same task by each incarnation, and a higher incarnation."""
    said = tmp_path / "said"

    def life(word: str, told: str) -> None:
        command = [sys.executable, "-c", LIFE, str(SHOP), str(tmp_path), word]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "serves\n"
            until = time.monotonic() + 60
            while told not in (said.read_text() if said.exists() else ""):
                assert time.monotonic() < until
                time.sleep(0.02)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()

    first, again = "own:1/owner/look/1", "own:1/owner/look/2"
    for incarnation, word in enumerate(("order", "", ""), 1):
        life(word, f"{first} {incarnation} ")
    life("order", f"{again} 4 ")  # the state is entered again, perhaps before what recovery began has said a word
    found = [line.split() for line in said.read_text().splitlines()]
    begun = [(task, int(n)) for task, n, _ in found]
    assert begun[:3] == [(first, 1), (first, 2), (first, 3)]
    assert set(begun[3:]) <= {(first, 4), (again, 4)}
    numbers = [int(number) for _, _, number in found]
    assert numbers == sorted(set(numbers)), "the fencing number rises"


LAMPS = TESTS / "impl/actor/systems/lamps"


async def test_of_two_answers_that_have_come_true_the_first_is_taken_and_the_other_asked_anew(tmp_path: Path) -> None:
    """The state that follows may wait for the same event under another condition."""
    (tmp_path / "lamps").mkdir()
    program = program_of(LAMPS)
    actor = alone(program, "owner", MemoryStore(Disk()), {}, SimulatedClock())
    await actor.start()
    await actor.begin(*RUN, "order", {}, {})
    await asyncio.sleep(1)
    state = actor.table.instances[RUN].state
    await actor.stop()
    assert state == "pleased"
