"""The lowered form against a direct reading of the YAML, by code that is not the language's: no word of it is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from leasehold.spec.language.lower import lower
from leasehold.spec.language.lower.form import Choice, Piece
from leasehold.spec.language.model import Fair
from tests.systems import load

ROOT = Path(__file__).parents[3]

SYSTEMS = (
    *(
        f"spec/systems/{name}"
        for name in (
            "starter",
            "two_phase_commit",
            "three_phase_commit",
            "three_phase_commit_termination",
            "lease",
            "contention",
        )
    ),
    *(f"examples/{name}" for name in ("ring", "register", "mutex")),
    "tests/impl/actor/lodge",
    "tests/impl/actor/pipe",
)
WORK = {"send", "drive"}
ON = True  # as YAML 1.1 has it
FAIR = {False: Fair.NO, True: Fair.WEAK, "strong": Fair.STRONG}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def roles_of(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, role in read(folder / "system.yaml")["roles"].items():
        yield name, read(folder / (role or {}).get("file", f"roles/{name}.yaml"))


def transitions_of(role: Mapping[str, Any], state: str) -> dict[str, list[Mapping[str, Any]]]:
    """Reasons of the state, then those that it shares with others."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for words in (role["states"][state] or {}, *(one for one in role.get("shared") or () if state in names(one["in"]))):
        for event, given in (words.get(ON) or {}).items():
            found.setdefault(event, []).extend(given if isinstance(given, list) else [given])
    return found


def names(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def kept(name: str) -> bool:
    """Returns whether a field keeps what a task has read: its name has two parts, and is not in the YAML."""
    return "__" in name


def compare_work(pieces: tuple[Piece, ...], tasks: list[str], role: Mapping[str, Any], where: str) -> None:
    wanted = [name for name in tasks if WORK & role["tasks"][name].keys()]
    assert [piece.task.name for piece in pieces] == wanted, where
    for piece, name in zip(pieces, wanted, strict=True):
        task = role["tasks"][name]
        assert piece.event == (task["send"] if "send" in task else task["event"]), (where, name)
        assert (piece.channel is not None) == ("send" in task), (where, name)
        # A machine that `to` names is one condition, as `only` is.
        named = "send" in task and task.get("to", piece.target.name) != piece.target.name
        conditions = sum(word in task for word in ("when", "only")) + (named and "only" not in task)
        assert len(piece.conditions) == conditions, (where, name)
        assert len(piece.fields) == len(task.get("with") or {}), (where, name)


def compare_choice(choice: Choice, given: Mapping[str, Any], state: str, role: Mapping[str, Any], where: str) -> None:
    assert choice.transition.target == given.get("to", state), where
    assert choice.transition.internal == bool(given.get("stay")), where
    assert (choice.guard is not None) == ("when" in given), where
    targets = [target.partition("[")[0] for target in given.get("set") or {}]
    assert [u.target for u in choice.updates if not kept(u.name)] == targets, where
    entered = [] if given.get("stay") else names(role["states"][given["to"]].get("tasks"))
    compare_work(choice.work, [*entered, *names(given.get("also"))], role, where)


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_transition_and_task_is_as_it_is_written(name: str) -> None:
    folder = ROOT / name
    relation = lower(load(folder))
    for role_name, role in roles_of(folder):
        seen = set()
        for state, words in role["states"].items():
            words = words or {}
            on = transitions_of(role, state)
            for event, given in on.items():
                where, choices = f"{role_name}/{state}#{event}", relation.moves[role_name, state, event]
                seen.add((role_name, state, event))
                assert len(choices) == len(given), where
                for choice, one in zip(choices, given, strict=True):
                    compare_choice(choice, one, state, role, where)
            answers = {
                (task, event)
                for task in names(words.get("tasks"))
                for event in names(role["tasks"][task].get("answers"))
                if event in on
            }
            offered = {(o.name, o.event) for o in relation.offers[role_name, state] if o.cause == "answer"}
            assert offered == answers, (role_name, state)
            ticks = [o for o in relation.offers[role_name, state] if o.cause == "tick"]
            assert len(ticks) == ("tick" in on), (role_name, state)
        assert {at for at in relation.moves if at[0] == role_name} == seen


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_environment_is_as_it_is_written(name: str) -> None:
    folder = ROOT / name
    system = load(folder)
    given = read(folder / "system.yaml").get("environment") or {}
    assert list(system.environment) == list(given)
    for key, words in given.items():
        action = system.environment[key]
        assert action.role == words["to"], key
        assert action.event == words.get("event", key), key
        assert (action.when is not None) == ("when" in words), key
        assert action.fair == FAIR[words.get("fair", False)], key
    relation = lower(system)
    offered = {(o.role.name, o.name) for some in relation.offers.values() for o in some if o.cause == "environment"}
    asked = {
        (r, event)
        for r, role in roles_of(folder)
        for t in (role.get("tasks") or {}).values()
        for event in names(t.get("answers"))
    }
    taken = {(r, event) for r, role in roles_of(folder) for s in role["states"] for event in transitions_of(role, s)}
    assert offered == {
        (a.role, key)
        for key, a in system.environment.items()
        if (a.role, a.event) in taken and (a.role, a.event) not in asked
    }
