"""A proof says all that it depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import StoredProof, prove
from leasehold.checker.prove.decide.assumptions import Assumptions, any_number, assumptions, held
from leasehold.checker.prove.decide.induction import Setting
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.faults.model import Budget
from leasehold.spec import System
from tests.systems import TESTS, TRUTH, load


def of(system: System, setting: Setting, searches: bool = True) -> Assumptions:
    return assumptions(system, setting, searches=searches)


def test_the_lease_is_proved_for_any_number() -> None:
    found = of(load("lease"), Setting())
    assert found.machines == {
        "service_manager": "1",
        "broker": "1",
        "authority": "1",
        "unit": "any number from 1 on",
        "guest": "any number from 1 on",
    }
    assert found.constants["last_end"].startswith("any")
    assert found.faults_left_out == ""
    assert found.assumed == (
        "nobody is Byzantine: every role follows its text",
        "stores last: no actor comes back without what it has committed",
        "events from outside come as `environment` says, with fields within their types",
        "all actors' clocks agree",
    )
    assert found.lines[-1].startswith("methods: queries of at most ")
    assert "k-induction" in found.lines[-1]


def test_numbers_that_are_asked_for_are_named() -> None:
    system, setting = load("two_phase_commit"), Setting(sizes={"participant": 2}, limit_seconds=7)
    assert (any_number(system, setting), held(system, setting)) == ([], ["participant=2"])
    found = of(system, setting, searches=False)
    assert found.machines["participant"] == found.constants["participants"] == "2 (--instances)"
    assert (found.most_steps, found.lines[-1]) == (0, "methods: queries of at most 7 s, induction alone")


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (FaultScope(), ""),
        (FaultScope(crash=False), "crashes, as --no-faults asks"),
        (FaultScope(network=False), "faults of the network but those that channels declare, as --no-faults asks"),
        (
            FaultScope(crash=False, network=False),
            "crashes and faults of the network but those that channels declare, as --no-faults asks",
        ),
    ],
)
def test_faults_that_no_step_has_are_named(scope: FaultScope, words: str) -> None:
    found = of(load("two_phase_commit"), Setting(scope=scope))
    assert found.faults_left_out == words
    assert any(line.startswith("faults left out: ") for line in found.lines) == bool(words)


def test_queues_leave_out_crashes_and_faults_of_the_network() -> None:
    assert of(load(TRUTH / "alternating_bit"), Setting()).faults_left_out == (
        "crashes and faults of the network but those that channels declare, as channel messages is a fifo, "
        "channel acknowledgements is a fifo"
    )


def test_partitions_that_a_system_asks_for_are_arbitrary() -> None:
    words = "`reachable` is arbitrary: in any state, any two machines may be apart"
    asks = {name: words in of(load(name), Setting()).assumed for name in ("lease", "three_phase_commit_termination")}
    assert asks == {"lease": False, "three_phase_commit_termination": True}


def test_faults_that_no_proof_knows_contradict_none() -> None:
    """A proof knows of lost stores where it was made for a system that is checked with them."""
    system = load(TESTS / "checker/prove/systems/forgets")
    lost = explore(system, budget=Budget.parse("amnesia=1"))
    assert [p.name for p in lost.properties if p.verdict == "violated"] == ["known"]
    setting = Setting(limit_seconds=1.0)
    (verdict,) = prove(system, setting, jobs=1, small=system).verdicts
    assert (verdict.verdict, verdict.path is not None) == ("counterexample", True)
    (lasting,) = prove(system, replace(setting, scope=FaultScope()), jobs=1, small=system).verdicts
    assert (lasting.verdict, lasting.path) == ("undecided", None)
    for amnesia, contradicted in (False, []), (True, ["known"]):
        faults = FaultScope(amnesia=amnesia).words
        proof = StoredProof(proved={"known": "induction"}, any_number=[], faults=faults, what="", made="")
        for budget, found in {
            "amnesia=1": contradicted,
            "byzantine=a": [],
            "crash=1,amnesia=1": contradicted,
            "crash=1": ["known"],
            "halt=1": ["known"],
        }.items():
            assert proof.contradicted(lost.properties, Budget.parse(budget)) == found


def test_stores_last_where_a_system_is_not_checked_without_them() -> None:
    words = "stores last: no actor comes back without what it has committed"
    assert {name: words in of(load(name), Setting()).assumed for name in ("lease", "grace_period")} == {
        "lease": True,
        "grace_period": False,
    }
    assert FaultScope.of(load("grace_period")).words.endswith(", and of lost stores")
    assert words in of(load("grace_period"), Setting(scope=FaultScope())).assumed
