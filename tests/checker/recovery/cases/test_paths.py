"""Paths of the explorer as cases: each word of a file is looked at, ways are found, and what no event tells is said."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from typing import Any

import pytest
from msgspec import structs

from leasehold.checker.explore import channels
from leasehold.checker.explore.labels import Labels
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import Path
from leasehold.checker.recovery.cases.path_case import CaseError, NoSuchStep, PathCase, followed, reported_cases
from leasehold.checker.recovery.cases.steps import StepWriter
from leasehold.checker.recovery.cases.stored import plain_case, read_case
from leasehold.checker.recovery.properties import Projection, RunProperties
from leasehold.faults.model import Budget, crash_points
from leasehold.faults.model.lowering import UP
from leasehold.reports.json_report import path_json
from leasehold.spec.language import types as t
from tests.systems import load

SETTINGS = {"two_phase_commit": {"participants": 2}, "contention": {}}
NOT_LOOKED_AT = {"transition", "sent", "driven", "title", "copied"}  # they follow from the step


@cache
def a_path(name: str, seed: int, steps: int = 7) -> Path:
    """A walk of the explorer as a path."""
    paths, chance, found = Paths(RunProperties(load(name, SETTINGS[name])).world, (), Labels()), Random(seed), []
    first = state = paths.world.initial_states()[0]
    for _ in range(steps):
        action, after = chance.choice([*paths.world.successors(state)])
        found.append(paths.describe(state, action, after))
        state = after
    return Path(paths.snapshot(first), tuple(found))


def reported(name: str, path: Path, **fields: Any) -> PathCase:
    result = {"name": "p", "verdict": "violated", "path": path_json(path)}
    report = {"properties": [result], "constants": SETTINGS[name], "system": name, **fields}
    (case,) = reported_cases(report, "explored.json")
    return case


def others(value: Any) -> Iterator[Any]:
    """Values that are not this one."""
    match value:
        case dict():
            yield {**value, "nobody": "nothing"}
            for key in value:
                yield {k: v for k, v in value.items() if k != key}
                yield {**value, key: "nothing"}
        case list():
            yield [*value, "nothing"]
        case int() if not isinstance(value, bool):
            yield value + 1
        case _:
            yield "nothing"


@pytest.mark.parametrize("name", SETTINGS)
def test_each_word_of_a_step_is_looked_at(name: str) -> None:
    """A path of the file is the one that was reported, and with any word altered the system has none like it."""
    system, path, chance = load(name, SETTINGS[name]), a_path(name, 3), Random(1)
    case = reported(name, path)
    brief = read_case(plain_case(case.brief(system)), "case.yaml")
    assert isinstance(brief, PathCase)
    assert case.run(system).path == brief.run(system).path == path
    altered: dict[str, list[tuple[PathCase, int, Any]]] = {}
    for one in (case, brief) if name == "two_phase_commit" else (case,):
        for at, step in enumerate(one.steps):
            for key in sorted(step.keys() - NOT_LOOKED_AT):
                for other in others(step[key]) if step[key] is not None or key not in ("now", "channels") else ():
                    if (other or None) != (step[key] or None):
                        altered.setdefault(key, []).append((one, at, other))
    assert {"kind", "machine", "event", "fields", "sender", "data", "before", "after"} <= altered.keys()
    for key, places in altered.items():
        for one, at, other in chance.sample(places, min(len(places), 12 if name == "two_phase_commit" else 1)):
            steps = [*one.steps]
            steps[at] = {**steps[at], key: other}
            with pytest.raises(NoSuchStep) as raised:
                structs.replace(one, steps=steps).run(system)
            assert raised.value.number > at, (key, other)
    for wrong in others(dict(case.initial)) if name == "two_phase_commit" else ():
        if len(wrong) >= len(case.initial):
            with pytest.raises(NoSuchStep) as raised:
                structs.replace(case, initial=wrong).run(system)
            assert raised.value.number == 0


def test_a_case_in_its_file_has_each_of_its_parts() -> None:
    case = PathCase(
        system="s",
        settings={"n": 1},
        budget=Budget(crash=1, lose=2),
        property="p",
        initial={"m": "x"},
        steps=[{"kind": "clock"}],
        loop=0,
    )
    assert read_case(plain_case(case), "") == case
    alterations: list[dict[str, Any]] = [
        {"budget": None},
        {"loop": None},
        {"settings": {}},
        {"initial": {}},
        {"loop": 1},
    ]
    for changes in alterations:
        other = structs.replace(case, **changes)
        assert read_case(plain_case(other), "") == other != case
    whole = plain_case(case)
    bad: list[tuple[str, Any, str]] = [
        ("system", 3, "the key `system` is missing, or no text"),
        ("property", None, "`property` is missing, or no"),
        ("steps", {}, "the key `steps` is missing, or no list"),
        ("steps", [{"kind": "x"}, {}], "step 2 has no `kind`"),
        ("steps", ["x"], "Expected `object`, got `str` - at `\\$.steps.0.`"),
        ("steps", [{"kind": 1}], "step 1 has no `kind`"),
    ]
    for key, wrong, words in bad:
        with pytest.raises(CaseError, match=words):
            read_case({**whole, key: wrong}, "f.yaml")


def test_cases_of_a_report_are_those_of_its_violations() -> None:
    name, path = "two_phase_commit", replace(a_path("two_phase_commit", 3), loop=2)
    case = reported(name, path, faults="crash=1,lose=2")
    assert (case.system, case.settings, case.property, case.loop) == (name, SETTINGS[name], "p", 2)
    assert case.budget == Budget(crash=1, lose=2)
    assert case.initial == {**path.initial.control, **path.initial.data}
    assert reported(name, path).budget is None
    told = {"name": "p", "verdict": "violated", "path": path_json(path)}
    several = [
        told,
        {**told, "verdict": "exhausted"},
        {"name": "q", "verdict": "violated"},
        {**told, "name": "r"},
        {**told, "verdict": "witnessed"},
    ]
    report = {"properties": several, "constants": {}, "system": name}
    assert [one.property for one in reported_cases(report, "")] == ["p", "r"]
    assert [one.system for one in reported_cases(report, "", "folder")] == ["folder"] * 2
    for wrong in ({**report, "properties": {}}, {k: v for k, v in report.items() if k != "constants"}):
        with pytest.raises(CaseError, match=r"f.json: it is neither a case nor what"):
            reported_cases(wrong, "f.json")


# Ways through steps that fit several


@pytest.mark.parametrize("share", [0.2, 0.3, 0.45, 0.6])
def test_a_way_is_found_where_there_is_one_and_else_how_far_any_comes(share: float) -> None:
    """Against all ways, made at length; and no state is tried twice at one step."""
    ends = set()
    for seed in range(150):
        chance = Random(seed)
        edges = [(n, one, to) for n, one, to in product(range(5), range(4), range(4)) if chance.random() < share]
        asked: list[tuple[int, Any]] = []

        def fitting(n: int, state: Any, edges: Any = edges, asked: Any = asked) -> Iterator[tuple[Any, Any]]:
            asked.append((n, state))
            yield from (((n, one, to), to) for at, one, to in edges if (at, one) == (n, state))

        many, furthest, ways = chance.randrange(6), 0, [[0]]
        for n in range(many):
            ways = [[*way, to] for way in ways for at, one, to in edges if (at, one) == (n, way[-1])]
            furthest = n + 1 if ways else furthest
        found, far = followed(0, many, fitting)  # type: ignore[arg-type]
        assert far == furthest
        assert len(asked) == len({*asked})
        assert [0, *(to for _, to in found)] in ways if far == many else found == []
        assert all(edge in edges and edge[0] == n for n, (edge, _) in enumerate(found))
        ends.add((far == many, far))
    assert len(ends) > 5


# Record states


@pytest.mark.parametrize("name", ["contention", "lease"])
def test_records_tell_all_cells_but_those_of_messages_faults_and_opaque_data(name: str) -> None:
    """Two states have other records exactly where one of these cells differs."""
    world = RunProperties(load(name)).world
    layout, first = world.layout, list(world.initial_states()[0])
    projection = Projection(world)
    told = {layout.at(role.name, i, None) for role, i in world.system.machines()}
    told |= {
        layout.at(role.name, i, d.name)
        for role, i in world.system.machines()
        for d in role.data.values()
        if d.type != t.OPAQUE
    }
    told |= {layout.clock}  # type: ignore[arg-type]
    assert len(projection(first)) == len(told)
    for at in range(layout.size):
        other = deepcopy(first)
        other[at] = "another"
        assert (projection(other) != projection(first)) is (at in told), at
    assert len(told) < layout.size


# Steps of scripts


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("two_phase_commit", "crash=1,lose=1,halt=1"),
        ("contention", "crash=1,duplicate=1"),
        ("three_phase_commit", "crash=1,partition=1,power_cut=1"),
    ],
)
def test_a_step_of_a_script_is_what_the_model_does(name: str, faults: str) -> None:
    """Its machine, event and sender; what it leaves; and, of a mailbox, how many messages like its own are newer."""
    system = load(name)
    world = RunProperties(system, Budget.parse(faults)).world
    writer, layout, seen = StepWriter(world, crash_points(system)), world.layout, set()
    places = [layout.at(role.name, i, None) for role, i in system.machines()]
    for seed in range(12):
        chance, before = Random(seed), world.initial_states()[0]
        for _ in range(25):
            following = [*world.successors(before)]
            if not following:
                break
            faulty = [one for one in following if one[0].fault and one[0].kind != "crash"]
            action, after = chance.choice(faulty if faulty and chance.random() < 0.1 else following)
            step = writer.taken(before, action, after)
            seen.add(action.kind)
            assert (step.kind, step.event, step.fields) == (action.kind, action.event, action.fields)
            assert step.machine == (None if action.role is None else (action.role, action.instance))
            lane = action.lane
            assert step.sender == (None if lane is None else (lane.channel.sender, lane.sender))
            assert step.control == tuple(after[at] for at in places)
            added = {layout.added[key] for key in layout.added}
            assert dict(step.cells) == {at: after[at] for at in added if before[at] != after[at]}
            if lane is None or lane.channel.kind != "mailbox" or action.position < 0:
                assert step.behind is None
            else:
                rank, *own = (entries := channels.entries("mailbox", before[lane.cell]))[action.position]
                newer = [entry for entry in entries[action.position + 1 :] if [*entry[1:]] == own]
                assert step.behind == (len(newer) if rank else 0)
                seen.add(f"behind {min(len(entries) - action.position, 2)}")
            if action.kind == "crash" and action.role is not None:
                of = layout.of[action.role, action.instance]
                stop = writer.stop(before, action, after, action.point, of)
                down = {a.name for a in layout.actors if before[world.up[a.name]] == UP != after[world.up[a.name]]}
                told = {layout.of[m].name for m in stop.along} | {of.name}
                assert told >= down, "who stops with it"
                assert (of.name not in {layout.of[m].name for m in stop.along}, stop.control) == (True, step.control)
                under_way = [
                    ((one.channel.receiver, one.receiver), kind, values)
                    for one in layout.lanes
                    if layout.of[one.channel.sender, one.sender].name in told
                    for _, kind, values in channels.entries(one.channel.kind, after[one.cell])
                ]
                assert sorted(stop.in_transit, key=repr) == sorted(under_way, key=repr)
                assert stop.done == writer.tasks.get(action.point.partition("@")[0], ())
            before = after
    assert {"deliver", "local"} <= seen
