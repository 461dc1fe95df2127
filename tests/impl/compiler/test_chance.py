"""The compiled core does what the explored machines do, also for systems that nobody thought about.

`python -m pytest --hypothesis-show-statistics` says how many of the systems that Hypothesis draws were walked.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings, target
from hypothesis import strategies as st

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.step import SpecFault
from leasehold.faults.model import Budget
from leasehold.impl.compiler.program import NotRunnable
from leasehold.spec import System
from tests.checker.explore.by_chance import by_chance
from tests.checker.prove.drawn_system import drawn_system
from tests.impl.compiler.busy import busy
from tests.impl.compiler.members import members
from tests.impl.compiler.twin import Twin
from tests.systems import TESTS, edited, files_of, load, written

STATES = 150  # of each system, the nearest to its first one


def walk(system: System) -> Twin | str:
    """Walks the edges of the first states; a word where the system cannot run."""
    try:
        twin = Twin(reference_of(system))
    except NotRunnable:
        return "not runnable"
    found = explore(system, Limits(states=STATES), budget=Budget.parse("duplicate=1"))
    twin = Twin(found.paths.world)
    for s in found.paths.states:
        try:
            list(twin.world.successors(s))
        except SpecFault:
            twin.seen["at fault"] += 1
            continue
        twin.state(s)
    return twin


def draw(kind: str, rng: random.Random) -> System | str:
    with tempfile.TemporaryDirectory() as folder:
        match kind:
            case "busy":
                found: Any = busy(Path(folder), rng)
            case "members":
                found = members(Path(folder), rng)
            case "drawn":
                found = drawn_system(Path(folder), rng, claims=2, runnable=True)
                found = found if isinstance(found, str) else found[0]
            case _:
                found = by_chance(Path(folder), rng)
    return "not loaded" if found is None or isinstance(found, str) else found


def walked(kind: str, rng: random.Random, became: Counter[str]) -> Twin | None:
    """Draws a system and walks it, and counts what became of it and what its edges did."""
    system = draw(kind, rng)
    found = system if isinstance(system, str) else walk(system)
    if isinstance(found, str):
        became[found] += 1
        return None
    became["walked"] += 1
    became["several channels"] += bool(found.system.apart)
    became["some channels in pairs"] += len({channel.same_index for channel in found.system.channels.values()}) > 1
    became.update(found.seen)
    return found


def judged(became: Counter[str], kind: str, count: int, share: float) -> None:
    """At least a share of them ran, with enough edges; by chance, many have channels that no network keeps to."""
    assert became["walked"] > share * count, became
    assert became["taken"] > 1_000
    if kind == "busy":
        assert became["several channels"] > 0.2 * count
        assert became["some channels in pairs"]
    if kind in ("busy", "members") or count > 20:  # a few small systems may have none
        assert became["duplicate"] > 0
    if kind == "busy" or count > 20:
        assert became["ignored"] > 0
    assert became["at fault"] < became["taken"]


@pytest.mark.parametrize(
    ("kind", "count", "share"),
    [
        ("by chance", 20, 0.15),
        ("busy", 5, 0.6),
        ("members", 6, 0.5),
        pytest.param("members", 40, 0.6, marks=pytest.mark.long),
        ("drawn", 5, 0.3),
        pytest.param("busy", 15, 0.8, marks=pytest.mark.long),
        pytest.param("drawn", 30, 0.4, marks=pytest.mark.long),
    ],
)
def test_every_edge(kind: str, count: int, share: float) -> None:
    """By seeds: what Hypothesis draws depends on the modules loaded so far, and so would the share of few systems."""
    became: Counter[str] = Counter()
    for seed in range(count):
        walked(kind, random.Random(seed), became)
    judged(became, kind, count, share)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count", "share"),
    [("by chance", 100, 0.15), ("busy", 25, 0.6), ("members", 200, 0.5), ("drawn", 400, 0.6)],
)
def test_every_edge_shrunk(kind: str, count: int, share: float) -> None:
    """By Hypothesis, which shrinks a failure to few choices."""
    became: Counter[str] = Counter()

    @settings(max_examples=count, suppress_health_check=list(HealthCheck))
    @given(rng=st.randoms(use_true_random=False))
    def play(rng: random.Random) -> None:
        twin = walked(kind, rng, became)
        event("not walked" if twin is None else "walked")
        if twin is not None:
            target(float(twin.seen["taken"]), label="transitions")

    play()
    judged(became, kind, count, share)


SITE = files_of("impl/compiler/systems/site")


def one(data: str, tasks: str) -> dict[str, str]:
    return {
        **SITE,
        "roles/a.yaml": f"""role: a
data: {data}
events: {{go: it goes on, done: all are up}}
states: {{idle: {{initial: true, tasks: [ask, drive], on: {{go: {{to: idle}}, done: {{to: idle}}}}}}}}
tasks: {tasks}
""",
    }


def test_parentheses_stay_where_a_condition_is_one_of_several(tmp_path: Path) -> None:
    found = walk(
        written(
            tmp_path,
            one(
                "{x: {type: bool, initial: true}, y: bool}",
                """
  ask: {send: ask, to: b, only: "it == b[0] if x else it == b[1]"}
  drive: {drive: part, event: up, when: x or y, answers: {done: part.state == runs}}""",
            ),
        )
    )
    assert isinstance(found, Twin)
    assert found.seen["taken"] > 10


@pytest.mark.parametrize("only", ["it == a[1]", "index(it) == 1", "it in {a[1]}", "not (it == a[0])"])
def test_where_only_machines_of_equal_index_talk_the_receiver_is_of_ones_own_index(tmp_path: Path, only: str) -> None:
    files = edited(files_of("impl/compiler/systems/paired"), ("it == a[1]", only))
    system = written(tmp_path, files)
    found = walk(system)
    assert isinstance(found, Twin)
    assert found.seen["taken"] > 5


def test_a_field_may_have_the_name_that_stands_for_a_long_operand() -> None:
    system = load(TESTS / "impl/compiler/systems/long_operand")
    found = walk(system)
    assert isinstance(found, Twin)
    assert found.seen["taken"] == 5  # 8, 4, 2, 1, 0


@pytest.mark.parametrize(
    ("one", "other", "opposite", "covered"),
    [
        ("x == y", "x != y", True, True),
        ("x < y", "x >= y", True, True),
        ("event.w in m", "event.w not in m", True, True),
        ("x == 1 or y == 1", "not (x == 1 or y == 1)", True, True),
        ("not (m <= n)", "m <= n", True, True),
        ("m | {event.w} == n", "m | {event.w} != n", True, True),
        ("x < y", "x > y", False, False),
        ("x < y", "y <= x", False, True),  # it is, but in another form
        ("m <= n", "not (m <= n) and x == 0", False, False),
        ("m <= n", "m > n", False, False),  # where each has what the other has not, neither holds
        ("x == y and m | {event.w} == n", "m | {event.w} != n", False, False),
    ],
)
def test_of_two_opposite_guards_the_second_is_not_asked(
    tmp_path: Path, one: str, other: str, opposite: bool, covered: bool
) -> None:
    """Both are asked where the form of the guards does not say so."""
    rest = ("    ignore: {go: neither holds}\n", "" if covered else "    ignore: {go: neither holds}\n")
    files = edited(files_of("impl/compiler/systems/opposite"), ("x == y", one), ("x != y", other), rest)
    system = written(tmp_path, files)
    found = walk(system)
    assert isinstance(found, Twin)
    assert found.seen["taken"] > 10
    assert ("A__IDLE__GO__NOT" in found.program.source) != opposite


@pytest.mark.parametrize(
    ("kind", "update", "when", "only", "make"),
    [
        ("set[b]", "chosen: 'chosen | {event.w}'", "n > 0", "it in chosen", "remembered"),
        ("set[b]", "chosen: 'chosen | {event.w}'", "n > 0", "it == b[1] or it in chosen", "remembered"),
        ("option[b]", "chosen: event.w", "n > 0", "it == chosen", "remembered"),
        ("map[b, bool]", "'chosen[event.w]': true", "n > 0", "chosen[it]", "made"),
        ("set[b]", "chosen: 'chosen | {event.w}'", "n > 0 and part.state == down", "it in chosen", "made"),
    ],
)
def test_outcomes_are_remembered_where_work_depends_on_what_can_be_hashed(
    tmp_path: Path, kind: str, update: str, when: str, only: str, make: str
) -> None:
    """A subsidiary machine changes without its lease's record, so what is read of it cannot be remembered."""
    parts = (("set[b]", kind), ("chosen: 'chosen | {event.w}'", update), ("n > 0", when), ("it in chosen", only))
    files = edited(files_of("impl/compiler/systems/chosen"), *parts)
    system = written(tmp_path, SITE | files)
    found = walk(system)
    assert isinstance(found, Twin)
    assert found.seen["taken"] > 100
    assert f"A__IDLE__GO = {make}('go'" in found.program.source


def test_what_two_transitions_make_of_one_field_is_kept_apart(tmp_path: Path) -> None:
    """The guard computes both values, each transition writes one, and the second one's work depends on it."""
    system = written(tmp_path, SITE | files_of("impl/compiler/systems/two_transitions"))
    found = walk(system)
    assert isinstance(found, Twin)
    assert found.seen["taken"] > 100
