"""The words of `leasehold up`: its actors and what can be done next, questions, and what a chaos run has found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leasehold.checker.recovery.processes.chaos_run import ChaosResult
from leasehold.cli import up
from leasehold.impl.processes.fleet import OpenQuestion, SystemFleet
from tests.systems import files_of

SYSTEM = files_of("cli/systems/shop")


def shop(folder: Path, standing: bool = False) -> SystemFleet:
    """The fleet of a shop, with the process numbers of actors that run."""
    for name, text in SYSTEM.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("STANDING", f"standing: {str(standing).lower()}"))
    fleet = SystemFleet(str(folder), folder / "run")
    fleet.processes = {name: cast(Any, SimpleNamespace(pid=70 + n)) for n, name in enumerate(fleet.roles)}
    return fleet


@pytest.mark.parametrize("standing", [False, True])
def test_actors_are_told_with_the_events_that_begin(
    standing: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An event of each first machine that the world outside gives in its first state, with blanks for its fields."""
    fleet = shop(tmp_path, standing)
    up._tell(fleet, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "system": "shop",
        "folder": str(fleet.folder),
        "run": "shop:1" if standing else None,
        "actors": [
            {
                "actor": "counter",
                "machines": ["clerk[0]", "clerk[1]"],
                "pid": 70,
                "socket": str(fleet.folder / "counter.sock"),
            },
            {"actor": "boss", "machines": ["boss"], "pid": 71, "socket": str(fleet.folder / "boss.sock")},
        ],
    }
    up._tell(fleet, as_json=False)
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith("leasehold ")]
    verb, more = ("tell shop:1 {1}{2} --machine {0}", "shop:1") if standing else ("begin {0} {1}{2}", "RUN")
    assert lines == [
        f"leasehold {verb.format('clerk[0]', 'ask', ' n=... kind=...')} --at {fleet.folder}/counter.sock",
        f"leasehold {verb.format('boss', 'open', '')} --at {fleet.folder}/boss.sock",
        f"leasehold show {more} --at {fleet.folder}",
    ]
    assert all(word in out for word in ("clerk[0], clerk[1]", "70", "71"))


def test_a_question_is_asked_once_and_again_in_a_later_state(capsys: pytest.CaptureFixture[str]) -> None:
    first = OpenQuestion("hall", "c:1", "boss", 3, "policy.judge", {"yes": ["n", "why"], "no": []})
    asked: set[tuple[Any, ...]] = set()
    changes: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({}, False),
        ({"actor": "inn"}, False),
        ({"answers": {}}, False),
        ({"lease": "c:2"}, True),
        ({"machine": "clerk"}, True),
        ({"since": 4}, True),
        ({"target": "policy.ask"}, True),
    ]
    for change, again in changes:
        question = first._replace(**change)
        up._ask(cast(Any, SimpleNamespace(questions=lambda q=question: [q], folder=Path("/f"))), asked)
        words = capsys.readouterr().err.splitlines()
        tell, at = f"  leasehold tell {question.lease}", f"--machine {question.machine} --at /f/hall.sock"
        assert words == again * [
            f"{question.machine} of {question.lease} asks {question.target}; answer it with",
            f"{tell} yes n=... why=... {at}",
            f"{tell} no {at}",
        ]


RESULT = ChaosResult(
    system="shop",
    seed=7,
    seconds=12.4,
    runs=1,
    events=2,
    crashes={"a": 1, "b": 2},
    amid_work=1,
    states=9,
    judged=["p", "q"],
    at_rest=True,
)
NOT_AT_REST = "the actors did not come to rest, so what runs that go on lead to was not judged"


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, ["shop: 2 events told, 3 crashes, 9 global states judged, 0 violations in 12 s (seed 7)", "judged: p, q"]),
        (
            {"runs": 3, "events": 1, "crashes": {"a": 1}, "states": 1, "violations": ["x: y"], "judged": []},
            [
                "shop: 3 runs, 1 event told, 1 crash, 1 global state judged, 1 violation in 12 s (seed 7)",
                "judged: nothing",
                "violated: x: y",
            ],
        ),
        (
            {"amid_work": 0, "taken": 7, "not_taken": ["t"], "seen": ["u", "v"], "unseen": ["w"], "untold": ["a go"]},
            [
                "shop: 2 events told, 3 crashes, 9 global states judged, 0 violations in 12 s (seed 7)",
                "judged: p, q",
                "taken: 7 of 8 transitions; not taken: t",
                "no kill came while anything was under way, so recovery amid work was not tried; try another --seed",
                "seen: u, v",
                "no run shows: w",
                "never told: a go; no moment came at which the environment offers it, so what rests on it was not tried",  # noqa: E501
            ],
        ),
        (
            {"left_out": ["r", "s"], "at_rest": False, "violations": ["x", "y"]},
            [
                "shop: 2 events told, 3 crashes, 9 global states judged, 2 violations in 12 s (seed 7)",
                "judged: p, q",
                "not judged, as no run tells: r, s",
                NOT_AT_REST,
                "violated: x",
                "violated: y",
            ],
        ),
    ],
    ids=["nothing", "one of each", "nothing amid work", "not at rest"],
)
def test_a_chaos_run_is_told_with_what_it_found(
    changes: dict[str, Any], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    up._tell_result(replace(RESULT, **changes))
    assert capsys.readouterr().out.splitlines() == lines
