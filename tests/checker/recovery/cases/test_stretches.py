"""Any stretch of the log of any run is played again as it was, and a case is the same out of its file."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from leasehold.checker.history.merge import capacities_of
from leasehold.checker.history.moments import Frontier, Moments
from leasehold.checker.recovery.cases.log_case import LogCase, LogPlayer, UnplayableLog, log_case
from leasehold.checker.recovery.cases.path_case import CaseError
from leasehold.checker.recovery.cases.stored import StoredCase, plain_case, read_case, settings_of, stored_cases
from leasehold.impl.events.event import StepEvent
from leasehold.spec import System
from tests.checker.conform.walks import ROOT, Log, known, walked

SYSTEMS = ("two_phase_commit", "contention", "lease", "tests/impl/actor/lodge", "tests/checker/conform/depot")
SEEDS, EACH = 2, 4


def some_cut(system: System, log: Log, chance: random.Random) -> Frontier:
    moments = Moments(log, capacities_of(system))
    if chance.random() < 0.5:
        return moments.of_tick(chance.randint(0, max(event.now for events in log.values() for event in events)))
    actor = chance.choice(sorted(log))
    return moments.of_event(actor, chance.randint(1, len(log[actor])))


def cases(name: str) -> list[LogCase]:
    """Stretches of random runs: all of each, and some at random, also of a single lease."""
    found, system = [], known(name).system
    for seed in range(SEEDS):
        log = {actor: events for actor, events in sorted(walked(name, seed).items()) if events}
        chance = random.Random(seed)
        leases = sorted({e.step.lease for events in log.values() for e in events if isinstance(e, StepEvent)} - {"-"})
        for number in range(EACH):
            begin, end = (some_cut(system, log, chance), some_cut(system, log, chance)) if number else (None, None)
            if begin and end and any(begin[actor] > end[actor] for actor in begin):
                end = None
            only = leases[:1] if chance.random() < 0.3 else []
            folder = str(ROOT / name) if "/" in name else name
            found.append(log_case(system, folder, settings_of(system), log, begin, end, only))
    return found


@pytest.mark.parametrize("name", SYSTEMS)
def test_stretches_are_played_as_they_were(name: str) -> None:
    played = steps = 0
    for case in cases(name):
        try:
            found = LogPlayer(known(name).system, case).play()
        except UnplayableLog:  # it begins where several messages of one machine to another were on their way
            continue
        assert not found.differs, (found.at, found.why, found.difference)
        played, steps = played + 1, steps + found.same
    assert played > SEEDS * EACH // 2
    assert steps > 20


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_case_is_the_same_out_of_its_file(name: str, tmp_path: Path) -> None:
    system = known(name).system
    for case in cases(name)[:2]:
        for suffix in (".yaml", ".json"):
            file = tmp_path / f"case{suffix}"
            file.write_text(StoredCase(case, system).text(file), encoding="utf-8")
            (stored,) = stored_cases(file) or ()
            assert isinstance(stored.case, LogCase)
            assert {**plain_case(stored.case), "system": ""} == {**plain_case(case), "system": ""}
            assert stored.system.digest == system.digest


WRONG: list[tuple[str, Any]] = [
    ("steps", [{"now": 1}]),
    ("steps", [{"at": "site:1", "now": "x"}]),
    ("steps", [3]),
    ("clocks", {"site": []}),
    ("actors", {"broker": 1}),
    ("start", [{"actor": "site"}]),
    ("in_transit", {"a": 1}),
    ("settings", [1]),
    ("start", [{"actor": "site", "lease": "a:1", "machine": "authority", "record": {"state": "active"}}]),
    (
        "start",
        [
            {
                "actor": "site",
                "lease": "a:1",
                "machine": "authority",
                "record": {"state": "active", "epoch": 1, "more": 1},
            }
        ],
    ),
]
UNKNOWN: list[tuple[str, Any]] = [
    ("steps", [{"at": "nobody:1", "now": 1, "lease": "a:1", "machine": "broker", "event": "ticket"}]),
    ("steps", [{"at": "broker:1", "now": 1, "lease": "a:1", "machine": "nobody", "event": "ticket"}]),
    ("start", [{"actor": "site", "lease": "a:1", "machine": "nobody", "record": {"state": "active", "epoch": 1}}]),
    ("start", [{"actor": "nobody", "lease": "a:1", "machine": "broker", "record": {"state": "closed", "epoch": 1}}]),
    ("start", [{"actor": "broker", "lease": "a:1", "machine": "broker", "record": {"state": "no", "epoch": 1}}]),
]


def _case(key: str, value: Any) -> dict[str, Any]:
    return {"case": "log", "system": "lease", "actors": {}, "steps": [], key: value}


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_a_case_of_another_form_is_refused(key: str, value: Any) -> None:
    with pytest.raises(CaseError, match=r"case\.yaml: "):
        read_case(_case(key, value), "case.yaml")


@pytest.mark.parametrize(("key", "value"), UNKNOWN)
def test_a_case_that_does_not_fit_its_system_is_refused(key: str, value: Any) -> None:
    case = read_case(_case(key, value), "case.yaml")
    assert isinstance(case, LogCase)
    with pytest.raises(UnplayableLog):
        LogPlayer(known("lease").system, case).play()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"machine": "ghost"}, "the system two_phase_commit has no machine 'ghost'"),
        ({"event": ""}, "it does not say what coordinator has consumed"),
    ],
)
def test_a_log_of_what_the_system_does_not_have_is_not_played(changed: dict[str, Any], reason: str) -> None:
    system, log = known("two_phase_commit").system, dict(walked("two_phase_commit", 1))
    at, event = next((n, e) for n, e in enumerate(log["coordinator"]) if isinstance(e, StepEvent))
    step = replace(event.step, **changed)
    log["coordinator"] = [*log["coordinator"][:at], replace(event, step=step), *log["coordinator"][at + 1 :]]
    with pytest.raises(UnplayableLog, match=re.escape(reason)):
        log_case(system, "two_phase_commit", settings_of(system), log)
