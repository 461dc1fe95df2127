"""A search that was cut short says another word than one that found nothing: each is asked both ways."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.crash import convergence
from leasehold.checker.crash.analysis import crash
from leasehold.checker.crash.cases import WorstCase
from leasehold.checker.crash.unmet import unmet
from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.prove import ANY, FaultScope, Setting
from leasehold.checker.prove import prover as provers
from leasehold.checker.prove.decide.cti import counterexample_to_induction
from leasehold.checker.prove.decide.guards import guard_findings
from leasehold.checker.prove.decide.induction import Induction, induct
from leasehold.checker.prove.decide.k_induction import k_induction
from leasehold.checker.prove.discover import strengthen
from leasehold.checker.prove.discover.candidates import MOST, explored_states
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.prover import Strategies
from leasehold.faults.model import Budget
from leasehold.reports import crash_words
from leasehold.reports.crash import crash_json, crash_markdown
from leasehold.reports.json_report import json_report
from leasehold.reports.markdown import markdown
from leasehold.reports.page import page_data
from leasehold.spec import System
from leasehold.spec.language.expression import negation
from tests.systems import load

EXAMPLES = Path(__file__).parents[2] / "examples"
NAME = "two_phase_commit"
LIMITED = Setting(limit_seconds=1e-6)  # of work: the solver can say nothing
NO_FAULTS = Setting(scope=FaultScope(crash=False, network=False))


@pytest.fixture(scope="module")
def system() -> System:
    return replace(load(NAME), lemmas={})


@pytest.fixture(scope="module")
def small() -> System:
    return replace(load(NAME, load(NAME).faults.settings), lemmas={})


@pytest.fixture(scope="module")
def bare(system: System) -> Induction:
    """Induction without lemmas: it does not prove `agreement`."""
    return induct(system, jobs=1)


# Proving


def test_k_induction(small: System) -> None:
    """`all_may_commit` as a claim about all states is inductive with no number of steps."""
    wrong = replace(small.properties["all_may_commit"], name="wrong", kind="always")
    encoding = NO_FAULTS.encoding(replace(small, properties={"wrong": wrong}))
    (claim,) = (c for c in claims_of(encoding) if c.name == "wrong")
    assert k_induction(encoding, claim, [], depth=1) == 0
    assert k_induction(encoding, claim, [], depth=1, seconds=0.0) is None
    unsure = replace(NO_FAULTS, limit_seconds=1e-6).encoding(encoding.system)
    (claim,) = (c for c in claims_of(unsure) if c.name == "wrong")
    assert k_induction(unsure, claim, [], depth=1) is None


@pytest.mark.parametrize("most", [0, MOST])
def test_lemmas(system: System, small: System, bare: Induction, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No candidate proves that claim; it is another thing that time, or the number of candidates, came to its end."""
    known, wanted = explored_states(small, [""]), ["agreement"]
    monkeypatch.setattr(strengthen, "candidates", lambda *_: [])
    monkeypatch.setattr(strengthen, "MOST", most)
    setting = replace(ANY, limit_seconds=30.0)
    found = strengthen.strengthened(system, setting, small, wanted, jobs=1, states=known, levels=(1,))
    assert found.missing.keys() == {"agreement"}
    assert found.cut_short == (set() if most else {"agreement"})
    if most:
        over = strengthen.strengthened(system, setting.limited(0.0), small, wanted, jobs=1, states=known, levels=(1,))
        assert over.cut_short == {"agreement"}


def test_what_was_cut_short_is_said_of_a_property(system: System, small: System, bare: Induction) -> None:
    with_all = Strategies(system, ANY, small, bare)
    reason = with_all.verdict("agreement", "always").reason
    with_all.cut_off["agreement"] = ["k-induction"]
    assert with_all.verdict("agreement", "always").reason == f"{reason}; cut short: k-induction"
    over = Strategies(system, ANY.limited(0.0), small, bare)
    over.k_induction(["agreement"])
    assert over.cut_off == {"agreement": ["k-induction"]}


def test_a_state_before_a_step(system: System, small: System, bare: Induction) -> None:
    step = bare.broken_by["agreement"]
    whole = counterexample_to_induction(system, ANY, "agreement", step, bare.proved, small)
    assert all(found.complete for found in whole.looked)
    assert "no state is like it" in whole.words[-1]
    part = replace(whole, looked=tuple(replace(found, complete=False) for found in whole.looked))
    assert "no state that was looked at is like it" in part.words[-1]
    over = counterexample_to_induction(system, ANY, "agreement", step, bare.proved, small, seconds=0.0)
    assert not any(found.complete for found in over.looked if found.placed is None)
    unsure = counterexample_to_induction(system, LIMITED, "agreement", step, bare.proved, small)
    assert (unsure.before, "the solver cannot say" in unsure.reason) == (None, True)
    none = counterexample_to_induction(system, ANY, "agreement", "coordinator/idle#begin", bare.proved, small)
    assert (none.before, "there is no state from which it does" in none.reason) == (None, True)


def test_guards() -> None:
    lease = load("lease")
    guarded = {"broker": lease.roles["broker"]}
    some = replace(lease, roles={**lease.roles, **guarded})
    assert guard_findings(ANY.encoding(some)) == []
    unsure = guard_findings(LIMITED.encoding(some))
    assert "dead" in {g.kind for g in unsure}
    assert not any(g.certain for g in unsure)


@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_antecedents(small: System, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proved property that may be vacuous: `open` where exploring came to no end, else it is, or has a case."""
    monkeypatch.setattr(provers, "ANTECEDENT_LIMITS", seconds / ANY.limit_seconds)
    never = replace(small.properties["agreement"], name="never", when=small.properties["agreement"].claim)
    asked = replace(small, properties={"never": never})
    strategies = Strategies(asked, NO_FAULTS, asked, Induction(proved={"never": "induction"}))
    strategies.antecedents()
    assert (strategies.vacuity_open, strategies.vacuous) == (["never"] if not seconds else [], {})


# Exploring


@pytest.fixture(scope="module")
def explored(small: System) -> Exploration:
    return explore(small)


def test_cases_and_transitions(small: System, explored: Exploration) -> None:
    part = explore(small, Limits(states=2))
    assert (explored.complete, part.complete) == (True, False)
    whole_json, part_json = (json_report(found) for found in (explored, part))
    assert (whole_json["vacuous"], whole_json["unvisited_transitions"]) == (
        list(explored.vacuous),
        list(explored.unvisited_transitions),
    )
    assert (part_json["vacuous"], part_json["unvisited_transitions"]) == (None, None)
    assert "Transitions never taken" not in markdown(part)
    assert "Transitions not taken so far" in markdown(part)
    assert page_data(part)["run"]["complete"] is False


def test_witnesses(small: System) -> None:
    """A missing witness is a violation after a whole search alone."""
    claim = negation(small.properties["agreement"].claim)
    never = replace(small.properties["all_may_commit"], name="never", claim=claim)
    asked = replace(small, properties={"never": never})
    verdicts = {
        limit: next(p.verdict for p in explore(asked, Limits(states=limit)).properties if p.name == "never")
        for limit in (None, 2)
    }
    assert verdicts == {None: "violated", 2: "bounded"}


# Crashes


def test_crash_points(small: System) -> None:
    whole = crash(small, Budget(crash=1))
    part = crash(small, Budget(crash=1), limits=Limits(states=10))
    assert whole.unmet is not None
    assert unmet(whole) is not None
    assert (part.unmet, unmet(part)) == (None, None)
    assert (crash_json(part)["crash_points_not_met"], crash_json(part)["never_reached"]) == (None, None)
    assert isinstance(crash_json(whole)["never_reached"], int)
    assert "It is not known which crash points are not met" in crash_markdown(part)
    assert "It is not known" not in crash_markdown(whole)


def test_the_longest_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round the cycles of a ring there are several ways, of which the longest counts."""
    ring = load(EXAMPLES / "ring")
    ring = load(EXAMPLES / "ring", ring.faults.settings)
    whole = crash(ring, Budget(crash=1))
    monkeypatch.setattr(convergence, "MOST_WAYS", 0)
    part = crash(ring, Budget(crash=1))
    assert whole.convergence is not None
    assert part.convergence is not None
    assert (part.convergence.converges, part.convergence.worst_steps) == (True, None)
    assert whole.convergence.worst_steps is not None
    assert "was not found" in crash_words.stabilises_words(part.convergence)
    assert "was not found" not in crash_words.stabilises_words(whole.convergence)
    assert crash_words.worst_words(WorstCase(None, None)) == "not measured"
