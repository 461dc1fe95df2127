"""Runs of policies on streams, by the real actors: what is measured, and what the judge and restarts find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.checker.policies.measures import fair_shares, figures_of, jain
from leasehold.checker.policies.run import Judge, PolicyChoice, PolicyRun, RequestProgress, UserUnits, simulate
from leasehold.checker.policies.stream import Generator, Stream, TimedRequest
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.policy.plugins import Plugin, PluginError
from leasehold.impl.policy.policy import Decision, Lease
from tests.checker.policies.broken import ByName
from tests.impl.lease.machines import first_data


def choice(name: str, **settings: object) -> PolicyChoice:
    module = "leasehold.impl.lease.broker" if name == "FirstComeFirstServed" else "tests.checker.policies.broken"
    return PolicyChoice(name, Plugin("policy", name, f"{module}:{name}", "a test"), settings)


def requests(*rows: tuple[int, int, int, int]) -> Stream:
    """A stream of such requests: when, units, ticks, and until when to start."""
    return Stream("rows", tuple(TimedRequest(n, *row, f"user-{n}") for n, row in enumerate(rows, 1)))


CROWD = Generator(rate=1.0, units=3, ticks=5, requests=30, patience=4.0, seed=3).stream()


def test_requests_have_what_they_need_and_are_given_back() -> None:
    """Two units: the second request waits for the first to end, the third misses its start, the fourth comes later."""
    run = simulate(
        choice("FirstComeFirstServed"), requests((1, 2, 4, 3), (2, 1, 3, 9), (2, 2, 5, 4), (12, 2, 2, 13)), 2
    )
    first, second, third, fourth = run.requests
    assert [(p.started, p.ended, p.work) for p in run.requests] == [(1, 5, 8), (5, 8, 3), (None, 4, 0), (12, 14, 4)]
    assert run.used == [2, 2, 2, 2, 1, 1, 1, 0, 0, 0, 0, 2, 2]
    assert run.waiting[:5] == [0, 2, 2, 1, 0], "one of them gives up at tick 4"
    assert run.right
    assert run.decisions == 3
    figures = figures_of(run)
    assert (figures.requests, figures.done, figures.missed, figures.cut) == (4, 3, 1, 0)
    assert (figures.mean_wait, figures.median_wait, figures.longest_wait) == (1.0, 0, 3)
    assert figures.revenue == 15
    assert figures.value == 15
    assert figures.fairness == 1, "the two that waited had nothing meanwhile"
    assert [user.normalised for user in figures.users] == [None, 0, 0, None], "who never waits has all that it wants"
    assert first.done
    assert second.done
    assert fourth.done
    assert not third.done


def test_a_term_that_is_shorter_than_a_request_is_extended() -> None:
    run = simulate(choice("FirstComeFirstServed"), requests((1, 2, 40, 3), (5, 1, 3, 60)), 2, term=10)
    assert [(p.started, p.done) for p in run.requests] == [(1, True), (41, True)]
    assert run.requests[1].lease != "tenant:2", "it was denied when its first term was over, and asked for again"
    assert run.decisions >= 5
    assert not run.violations


def test_one_seed_gives_one_run() -> None:
    runs = [simulate(choice("FirstComeFirstServed"), CROWD, 4, seed=seed) for seed in (1, 1, 2)]
    seen = [(run.used, run.waiting, run.differences, [(p.started, p.ended) for p in run.requests]) for run in runs]
    assert seen[0] == seen[1] == seen[2], "chance has no part in a run without faults"


def test_a_policy_of_records_alone_decides_alike_after_every_restart() -> None:
    run = simulate(choice("ByName"), CROWD, 4, restart_every=1)
    assert run.restarts > 5
    assert run.right


def test_restarts_change_nothing_of_the_run() -> None:
    runs = [simulate(choice("Counting"), CROWD, 4, restart_every=every) for every in (0, 2)]
    assert runs[0].used == runs[1].used
    assert [run.restarts > 0 for run in runs] == [bool(run.differences) for run in runs] == [False, True]


def test_the_first_decision_that_differs_is_told() -> None:
    run = simulate(choice("Forgetful"), CROWD, 4, restart_every=3)
    assert not run.violations, "the policy that decides was never restarted"
    first = run.differences[0]
    assert "after a restart at tick" in first
    assert "granted(units=" in first
    assert "nothing" in first


def test_events_that_a_policy_raises_are_compared_as_well() -> None:
    run = simulate(choice("Recovering"), CROWD, 4, restart_every=2)
    assert any("recover(raised=True)" in one for one in run.differences), run.differences


def test_a_broker_that_promises_too_much_is_caught() -> None:
    run = simulate(choice("Generous"), CROWD, 4, restart_every=0)
    assert any("the broker has promised" in one and "of 4 units" in one for one in run.violations)
    assert not any("while" in one for one in run.violations), "the site gives no unit to two"


def test_what_a_policy_raises_is_told_and_harms_nothing_else() -> None:
    run = simulate(choice("Raising"), CROWD, 4, restart_every=0)
    (error,) = run.violations
    assert error.endswith("LookupError: of no use")
    assert "allocate for tenant:" in error
    assert sum(progress.done for progress in run.requests) > 5


def test_a_policy_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(PluginError, match="cannot be made: RuntimeError: not today"):
        simulate(choice("Unmakeable"), CROWD, 4)


def test_a_policy_hears_since_when_its_store_is_there_and_so_does_the_restarted() -> None:
    """A broker that grants terms of 40 ticks at most promises nothing in its first 40 ticks."""
    stream = requests((1, 1, 5, 60), (2, 2, 5, 60), (50, 1, 3, 60))
    run = simulate(choice("FirstComeFirstServed", longest_term=40), stream, 3, term=30, restart_every=1)
    assert all(one.started is not None and one.started >= 40 for one in run.requests)
    assert run.right


def action(verb: str, unit: str, lease: str) -> HandlerAction:
    return HandlerAction(verb, lease, unit, 1, {})


def test_the_judge_sees_a_unit_that_two_leases_have_and_what_is_left() -> None:
    leases = {name: RequestProgress(CROWD.requests[0], name) for name in ("a", "b")}
    judge = Judge(1, leases, lambda: 7)
    judge.hear_unit(action("setup", "u", "a"), "begun")
    judge.hear_unit(action("setup", "u", "a"), "done")
    judge.hear_unit(action("setup", "u", "a"), "begun")
    assert leases["a"].up == 1
    assert not judge.violations
    judge.hear_unit(action("setup", "u", "b"), "begun")
    judge.hear_unit(action("setup", "u", "b"), "done")
    assert (leases["a"].up, leases["b"].up) == (0, 1)
    judge.hear_unit(action("teardown", "u", "b"), "done")
    judge.hear_unit(action("setup", "v", "a"), "done")
    data = {**first_data("broker"), "counted": 2, "term_end": 9}
    judge.hear_record(Lease("a", "broker", "ticketed", data, {}), 7)
    judge.at_the_end(type("Nobody", (), {"actors": {}})())
    assert judge.violations == [
        "tick 7: u is set up for b while a has it",
        "tick 7: the broker has promised 2 of 1 unit, the last of them to a",
        "tick 7: v is still up for a, which is over",
        "tick 7: the broker still has 2 units promised to a, which is over",
    ]


def test_the_index_of_fairness() -> None:
    assert jain([2, 2, 2]) == 1
    assert jain([3, 0, 0]) == pytest.approx(1 / 3)
    assert jain([]) == jain([0, 0]) == 1


def played(*ticks: dict[str, tuple[int, int, bool]], weights: dict[str, int], units: int = 4) -> PolicyRun:
    """A run in which users had and wanted so much in each tick, and waited or not."""
    asked = [TimedRequest(n, 1, 1, 1, 2, name, weight) for n, (name, weight) in enumerate(weights.items(), 1)]
    by_user = [{name: UserUnits(*one) for name, one in tick.items()} for tick in ticks]
    return PolicyRun("p", units, [RequestProgress(one, one.user) for one in asked], by_user=by_user)


def test_fairness_is_over_fair_shares_while_a_request_waits() -> None:
    """Four units, weights 3 and 1. In the second tick bob wants little, and in the third nobody waits."""
    run = played(
        {"ann": (2, 9, True), "bob": (2, 9, True)},
        {"ann": (3, 9, True), "bob": (1, 1, False)},
        {"ann": (0, 0, False), "bob": (4, 4, False)},
        weights={"ann": 3, "bob": 1},
    )
    figures = figures_of(run)
    assert [user.normalised for user in figures.users] == [5 / 6, 2]
    assert figures.fairness == jain([5 / 6, 2])
    fair = played({"ann": (3, 9, True), "bob": (1, 9, True)}, weights={"ann": 3, "bob": 1})
    assert figures_of(fair).fairness == 1


def test_who_has_all_that_it_wants_is_treated_unfairly_by_nobody() -> None:
    run = played(
        {"ann": (3, 9, True), "bob": (3, 9, True), "cleo": (0, 0, False)}, weights={"ann": 1, "bob": 1, "cleo": 9}
    )
    assert figures_of(run).fairness == 1


wanted_units = st.dictionaries(st.sampled_from("abcde"), st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1)


@given(units=st.integers(0, 12), users=wanted_units)
def test_fair_shares_are_max_min_by_weight(units: int, users: dict[str, tuple[int, int]]) -> None:
    """The definition: all is given that can be, and whoever wants more has no less for its weight than any other."""
    wanted, weights = ({name: of[part] for name, of in users.items()} for part in (0, 1))
    shares = fair_shares(units, wanted, weights)
    assert sum(shares.values()) == pytest.approx(min(units, sum(wanted.values())))
    for name, share in shares.items():
        assert -1e-9 <= share <= wanted[name] + 1e-9
        if share < wanted[name] - 1e-9:
            assert all(share / weights[name] >= other / weights[o] - 1e-9 for o, other in shares.items())


def test_revenue_is_of_bids_where_they_are_read_and_of_the_best_posted_price_where_not() -> None:
    rows = [TimedRequest(n, 1, 1, 4, 9, "ann", 1, bid) for n, bid in enumerate((9, 5, 4, 1), 1)]
    had = [RequestProgress(one, str(one.number), work=one.number) for one in rows]
    sold = [figures_of(PolicyRun("p", 2, had, reads_bids=reads)) for reads in (True, False)]
    assert [figures.value for figures in sold] == [9 + 10 + 12 + 4] * 2
    assert sold[0].revenue == 35
    assert sold[1].revenue == max(9, 5 * 3, 4 * 6, 1 * 10)
    had[3].price = 7.0
    assert figures_of(PolicyRun("p", 2, had)).revenue == 7 * 4 + 24, "a ticket that says its price has that one"
    assert figures_of(PolicyRun("p", 2, had, reads_bids=True)).revenue == 7 * 4 + 31


class Priced(ByName):
    """Says a price on each ticket."""

    def _grant(self, *args: Any, **more: Any) -> Decision:
        decision = super()._grant(*args, **more)
        return replace(
            decision, fields={**decision.fields, "properties": {**decision.fields["properties"], "price": 3}}
        )


def test_a_policy_says_whether_it_reads_bids_and_a_ticket_its_price() -> None:
    auction = PolicyChoice("a", Plugin("policy", "a", "leasehold.impl.lease.policies.auction:Auction", "a test"), {})
    priced = PolicyChoice("p", Plugin("policy", "p", f"{__name__}:Priced", "a test"), {})
    stream = requests((1, 1, 2, 3))
    assert [simulate(one, stream, 1).reads_bids for one in (auction, priced)] == [True, False]
    assert figures_of(simulate(priced, stream, 1)).revenue == 6
    assert figures_of(simulate(auction, stream, 1)).revenue == 2


def test_shares_are_by_weight() -> None:
    rows = [TimedRequest(1, 1, 1, 4, 9, "ann", 3), TimedRequest(2, 1, 1, 4, 9, "bob", 1)]
    run = PolicyRun(
        "p",
        2,
        [RequestProgress(rows[0], "a", work=3, started=1), RequestProgress(rows[1], "b", work=1, started=3)],
        [2, 2],
    )
    figures = figures_of(run)
    assert figures.utilisation == 1
    assert figures.cut == 2
    assert [(u.name, u.entitled, u.asked, u.used, u.waits) for u in figures.users] == [
        ("ann", 0.75, 0.5, 0.75, 0.0),
        ("bob", 0.25, 0.5, 0.25, 2.0),
    ]
