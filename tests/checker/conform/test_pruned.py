"""Logs of which the oldest events were dropped: what is left is judged, and what cannot be is counted."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from leasehold.checker.conform.findings import JudgedLog, Nonconformity
from leasehold.checker.conform.judge import LogConformance
from leasehold.checker.conform.logs import read_log
from leasehold.impl.events.chain import ChainError
from leasehold.impl.events.event import PrunedEvent, StepEvent, digest, write
from leasehold.impl.events.lines import write_lines
from tests.checker.conform.alterations import altered
from tests.checker.conform.test_alterations import known_lease, lease
from tests.checker.conform.walks import Log

SEED = 3


def judged(log: Log, dropped: dict[str, int]) -> tuple[list[Nonconformity], dict[str, JudgedLog]]:
    """What is found where so many events of each actor were dropped."""
    of = known_lease(SEED % 2 == 0)
    conformance = LogConformance(of, [JudgedLog(actor, pruned=dropped.get(actor, 0)) for actor in log])
    for event in conformance.merged((actor, events[dropped.get(actor, 0) :]) for actor, events in log.items()):
        conformance.take(event)
    conformance.end()
    return conformance.findings, {found.actor: found for found in conformance.judged}


@pytest.mark.parametrize("actor", ["service_manager", "broker", "site"])
def test_what_is_left_conforms_and_what_is_not_judged_is_counted(actor: str) -> None:
    log = lease(SEED)
    for count in range(1, len(log[actor]) - 1, 5):
        findings, found = judged(log, dict.fromkeys(log, 0) | {actor: count})
        assert findings == [], count
        left = [event.step for event in log[actor][count:] if isinstance(event, StepEvent)]
        machines = {(step.lease, step.machine) for step in left}
        assert found[actor].steps >= len(left)
        assert found[actor].not_judged <= 3 * len(machines)
        assert found[actor].by_reference == found[actor].steps - found[actor].not_judged


def test_a_wrong_step_is_found_behind_what_was_dropped() -> None:
    of, log = known_lease(SEED % 2 == 0), lease(SEED)
    dropped = {"broker": 4}
    last = max(at for at, event in enumerate(log["broker"]) if isinstance(event, StepEvent))
    other = altered("a_later_state_epoch", of, log, "broker", last)
    assert judged(log, dropped)[0] == []
    assert [f.position for f in judged(other, dropped)[0]] == [last + 1]


def test_a_chain_that_begins_with_no_incarnation_is_found() -> None:
    log = {**lease(SEED)}
    log["site"] = [replace(event, position=at) for at, event in enumerate(log["site"][1:], 1)]
    findings = judged(log, {})[0]
    assert ("site", 1, "no event says that its incarnation has begun") in [
        (f.actor, f.position, f.reason) for f in findings
    ]


@pytest.mark.parametrize(
    ("until", "root", "words"), [(3, "", ""), (3, "0" * 64, "does not follow"), (2, "", "missing")]
)
def test_the_event_that_says_so_has_to_fit(until: int, root: str, words: str) -> None:
    events = lease(SEED)["site"]
    last = events[-1]
    pruned = PrunedEvent(
        position=last.position + 1, before=digest(write(last)), actor="site", epoch=last.epoch, spec=last.spec,
        now=last.now, time=last.time, commit=last.commit, until=until, root=root or digest(write(events[2])),
    )  # fmt: skip
    lines = [*write_lines("site", map(write, [*events[3:], pruned]), 0.0)]
    if not words:
        log = read_log(lines, None)
        assert (log.pruned, log.events[0].position) == (3, 4)
        return
    with pytest.raises(ChainError, match=words):
        read_log(lines, None)
