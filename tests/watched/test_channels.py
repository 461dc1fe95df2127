"""Several channels from one role to another, at run time: each with an order and numbers of its own.

An office sends orders and calls them off over another channel (tests/constructs/urgent); on some walks and in some
processes a call overtakes orders that were sent before it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.checker.recovery.cases.campaign import campaign
from leasehold.checker.verify.history import HistoryVerification
from leasehold.cli.conform import conform
from leasehold.cli.verify import verify
from leasehold.impl.events.event import StepEvent
from leasehold.impl.processes.cluster import ProcessSystem
from tests.checker.conform.walks import Log, judged
from tests.systems import CONSTRUCTS, load
from tests.watched.drawn import Drawn
from tests.watched.test_drawn import play

KINDS = ("fifo", "mailbox")
WALKS = 12  # half of them are disturbed


@cache
def urgent(kind: str) -> Drawn:
    return Drawn(1, load(CONSTRUCTS / "urgent", {"by": kind, "orders": 3}))


@cache
def log_of(kind: str, number: int) -> Log:
    return urgent(kind).log(number)


def overtaken(log: Log) -> int:
    """Counts the orders that came after the call that was sent after them."""
    steps = [e.step for events in log.values() for e in events if isinstance(e, StepEvent)]
    return sum(step.event == "order" and step.source == "halted" for step in steps)


def assert_clean(one: Drawn, log: Log) -> None:
    """Readers of logs say of it: each step is one of the specification, and all of its properties hold."""
    findings, logs = judged(one.known, log)
    assert findings == []
    assert all(log.by_reference == log.steps for log in logs)
    verification = HistoryVerification(one.cuts, log, whole=True)
    for actor, events in log.items():
        verification.add(actor, events)
    result = verification.end().as_json()
    verification.close()
    assert (result["faults"], result["violations"]) == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_what_actors_do_is_what_the_explorer_has(kind: str) -> None:
    """Messages are lost, come twice and out of turn, actors end and come back."""
    overtakes = 0
    for number in range(WALKS):
        assert_clean(urgent(kind), log_of(kind, number))
        overtakes += overtaken(log_of(kind, number))
    assert overtakes > 3, "an order comes after the call"


@pytest.mark.parametrize("kind", KINDS)
def test_logs_are_played_again_alike(kind: str) -> None:
    one = urgent(kind)
    for number in range(WALKS):
        play(one, log_of(kind, number))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_actors_that_crash_anywhere_recover(kind: str) -> None:
    found = campaign(load(CONSTRUCTS / "urgent", {"by": kind}))
    assert found.holds, found
    assert found.passed > 150


@pytest.mark.long
@pytest.mark.real_time
@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_are_killed_go_on_over_each_channel(kind: str, tmp_path: Path) -> None:
    """A driver is down while it is sent orders, and called off; so is the office before it hears of that."""
    system = ProcessSystem(str(CONSTRUCTS / "urgent"), {"by": kind, "drivers": 2})
    try:
        system.begin("office", "go")
        system.crash("driver-0", restart=False)
        system.tell("office", "go")
        system.tell("office", "go")
        system.tell("office", "stop")
        assert system.state("driver[1]") == "halted"
        system.crash("office", restart=False)
        system.restart("driver-0")
        system.restart("office")
        system.settle()
        states = [system.state(machine) for machine in ("office", "driver[0]", "driver[1]")]
        assert states == ["over", "halted", "halted"]
        assert system.data("driver[0]")["until"] == 3
        assert system.data("driver[1]") == {"last": 3, "until": 3}
        for name, lines in system.logs().items():
            (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    finally:
        system.stop()
    of = ["--system", str(CONSTRUCTS / "urgent"), "--set", f"by={kind}", "--json"]
    for verb, wrong in ((conform, "findings"), (verify, "violations")):
        found = json.loads(CliRunner().invoke(verb, [str(tmp_path), *of]).output)
        assert found[wrong] == []
