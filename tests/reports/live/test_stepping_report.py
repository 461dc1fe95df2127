"""The report of a small system, which is stepped through without a server: it says what the live page says."""

import random
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.standing import Standings
from leasehold.checker.explore.walker import Walker
from leasehold.reports.page import page, page_data
from leasehold.reports.stepping import MOST_STATES, graph_json
from leasehold.spec import System
from tests.reports.browser import PROGRAM
from tests.reports.live.serving import opened
from tests.systems import TESTS, load

SAGA = TESTS / "reports/live/systems/saga"
ALARM = TESTS / "checker/explore/systems/alarm"
VALVE = TESTS / "checker/explore/systems/valve"


@pytest.mark.parametrize("folder", [SAGA, ALARM], ids=["saga", "alarm"])
def test_it_has_each_state_and_step_of_the_search(folder: Path) -> None:
    exploration = explore(load(folder))
    graph = graph_json(exploration)
    assert graph is not None
    assert len(graph["states"]) == exploration.distinct
    assert sum(len(state["choices"]) for state in graph["states"]) == exploration.generated - exploration.initial
    violated = {
        claim["name"] for state in graph["states"] for claim in state["claims"] if claim["status"] == "violated"
    }
    violated |= {claim["name"] for state in graph["states"] for one in state["choices"] for claim in one["broken"]}
    of_states = {p.name for p in exploration.properties if p.verdict == "violated" and p.kind in ("always", "step")}
    assert violated == of_states


def test_no_step_leads_on_where_the_search_was_bounded() -> None:
    """A state beyond the constraint is one to look at, as it is of the search."""
    exploration = explore(load(VALVE))
    graph = graph_json(exploration)
    assert graph is not None
    states = graph["states"]
    outside = [state for state in states if state["outside"]]
    assert 0 < len(outside) == len(states) - exploration.distinct
    assert not any(state["choices"] for state in outside)


def test_a_step_says_which_control_states_it_changes() -> None:
    graph = graph_json(explore(load(SAGA)))
    assert graph is not None
    states, initial = graph["states"], graph["initial"]["initial"]["control"]
    changed = 0
    for state in states:
        before = initial | state["control"]
        for choice in state["choices"]:
            after = initial | states[choice["to"]]["control"]
            assert choice["control"] == {name: after[name] for name in after if after[name] != before[name]}
            changed += len(choice["control"])
    assert changed > 10


def test_a_large_system_is_not_in_it(many, lease) -> None:
    for exploration in (many, lease):
        assert exploration.distinct > MOST_STATES
        assert "graph" not in page_data(exploration)


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
@pytest.mark.parametrize(
    ("folder", "seed"),
    [(SAGA, 1), (ALARM, 2), *(pytest.param(SAGA, n, marks=pytest.mark.long) for n in range(3, 6))],
)
def test_the_page_steps_as_the_walker_does(folder: Path, seed: int, tmp_path: Path) -> None:
    system: System = load(folder)
    file = tmp_path / "index.html"
    file.write_text(page(explore(system)), encoding="utf-8")
    walker, chance = Walker(system), random.Random(seed)
    standings, at = Standings(walker), walker.firsts[0]
    with opened(file.as_uri()) as shown:
        for number in range(1, 7):
            possible = walker.choices(at).next
            if not possible:
                break
            assert sorted(
                shown.browser.run("[...document.querySelectorAll('.choice')].map((c) => c.dataset.key)")
            ) == sorted(p.trail[-1] for p in possible)
            at = chance.choice(possible)
            shown.browser.run(f"document.querySelector('.choice[data-key=\"{at.trail[-1]}\"]').click()")
            shown.at(number)
            assert shown.states() | {"now": ""} == dict(walker.snapshot(at).shown) | {"now": ""}
            wanted = {s.name for s in standings.at(at) if s.status == "violated" and s.since is None}
            said = shown.browser.run("[...document.querySelectorAll('.violated-here .name')].map((e) => e.textContent)")
            assert {*said} == wanted
        shown.browser.run(
            "[...document.querySelectorAll('.tools button')].find((b) => b.textContent === '← Back').click()"
        )
        shown.at(len(at.trail) - 2)
