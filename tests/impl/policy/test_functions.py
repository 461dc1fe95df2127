"""Policies and handlers as functions in a file: what they return, what is wrong with a file, and an actor with one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.handlers.handler import Done, HandlerAction, checked
from leasehold.impl.policy import plugins
from leasehold.impl.policy.plugins import PluginError
from leasehold.impl.policy.policy import Lease, Question
from leasehold.impl.processes.fleet import SystemFleet

HEAD = "from leasehold.impl.policy.functions import task\n"
ACTION = HandlerAction("make", "a:1", "", 7, {}, answers=("made", "failed"), task="a:1/store/make/1")
QUESTION = Question("vote", Lease("a:1", "participant", "voting", {}, {}), ("able", "unable"), 3)


def write(folder: Path, text: str) -> str:
    (folder / "mine.py").write_text(HEAD + text)
    return f"{folder}/mine.py"


@pytest.mark.parametrize(
    ("returned", "done"),
    [
        ("None", Done(True)),
        ("True", Done(True)),
        ("False", Done(False)),
        ("'made'", Done(True, answer="made")),
        ("('made', {'place': 'x'})", Done(True, answer="made", fields={"place": "x"})),
        ("{'pid': 9}", Done(True, facts={"pid": 9})),
        ("Done(False, 'no room')", Done(False, "no room")),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_what_a_function_of_a_handler_returns(returned: str, done: Done, kind: str, tmp_path: Path) -> None:
    more = "from leasehold.impl.handlers.handler import Done\n"
    file = write(tmp_path, f"{more}@task\n{kind} make(action):\n    assert action.number == 7\n    return {returned}\n")
    for name in (file, f"{file}:make"):
        assert checked(await plugins.make("handler", name).act(ACTION)) == done


async def test_a_function_of_a_handler_that_returns_something_else_has_failed(tmp_path: Path) -> None:
    file = write(tmp_path, "@task\ndef make(action):\n    return 7\n")
    with pytest.raises(TypeError, match="a task returns nothing, a truth, an event, facts or a Done, and not 7"):
        await plugins.make("handler", file).act(ACTION)


def test_a_file_has_the_verbs_of_its_tasks_and_one_function_has_any(tmp_path: Path) -> None:
    file = write(tmp_path, "@task\ndef make(action): ...\n@task\ndef drop(action): ...\ndef helper(): ...\n")
    assert plugins.make("handler", file).verbs == ("make", "drop")
    assert not hasattr(plugins.make("handler", f"{file}:helper"), "verbs")


def test_a_class_of_a_file_may_be_a_dataclass_and_has_settings(tmp_path: Path) -> None:
    text = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Mine:
    size: int

    async def act(self, action): ...
    async def probe(self, unit): ...
    async def close(self): ...
"""
    (tmp_path / "mine.py").write_text(text)
    assert plugins.make("handler", f"{tmp_path}/mine.py:Mine", {"size": 3}).size == 3


@pytest.mark.parametrize("name", ["one.two.py", "one.two.py:make", "a.py.d/mine.py:make"])
def test_a_file_may_have_dots_in_its_name(name: str, tmp_path: Path) -> None:
    file = tmp_path / name.partition(":")[0]
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{HEAD}@task\ndef make(action): ...\n")
    assert plugins.find("handler", f"{tmp_path}/{name}").make({})


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("mine.py:maek", {}, "has no 'maek'; did you mean make?"),
        ("mine.py:make", {"size": 3}, "has no setting 'size'"),
        ("mine.py", {"other": 3}, "has no setting 'other'"),
        ("mine.py:NUMBER", {}, "is no class or function but int; mend that file"),
        ("mine.py:Half", {}, "lacks the methods act, probe, close"),
        ("none.py", {}, "there is no file "),
        ("none.py:make", {}, "there is no file "),
        ("wrong.py", {}, "cannot be imported: ZeroDivisionError: division by zero; mend that file"),
        ("empty.py", {}, "no function of .*empty.py is a `task`"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(name: str, settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    write(tmp_path, "NUMBER = 1\n@task\ndef make(action): ...\nclass Half: ...\n")
    (tmp_path / "wrong.py").write_text("1 / 0\n")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(PluginError, match=words):
        plugins.make("handler", f"{tmp_path}/{name}", settings)


@pytest.mark.parametrize(
    ("returned", "decisions"),
    [
        ("'able'", [QUESTION.answer("able")]),
        ("('able', {'units': 2})", [QUESTION.answer("able", units=2)]),
        ("question.answer('unable')", [QUESTION.answer("unable")]),
    ],
)
def test_what_a_function_of_a_policy_answers(returned: str, decisions: list[Any], tmp_path: Path) -> None:
    file = write(tmp_path, f"@task\ndef vote(question, now):\n    return {returned} if now > 4 else None\n")
    for name in (file, f"{file}:vote"):
        policy = plugins.make("policy", name)
        assert [*policy.begin(QUESTION, 5)] == decisions
        assert [*policy.tick(6)] == [], "it is answered"
        assert [*policy.begin(QUESTION, 4)] == []
        assert ([*policy.tick(4)], [*policy.tick(5)], [*policy.tick(6)]) == ([], decisions, [])
        assert [*policy.begin(QUESTION, 4)] == []
        assert [*policy.changed(QUESTION.lease, 4)] == []
        assert [*policy.tick(5)] == decisions, "it waits in the same state"
        assert [*policy.begin(QUESTION, 4)] == []
        assert [*policy.changed(Lease("a:1", "participant", "aborted", {}, {}), 4)] == []
        assert [*policy.tick(5)] == [], "nobody asks any more"


def test_a_call_without_a_function_stays_open(tmp_path: Path) -> None:
    policy = plugins.make("policy", write(tmp_path, "@task\ndef other(question, now):\n    return 'able'\n"))
    assert [*policy.begin(QUESTION, 5)] == []


def test_a_policy_that_answers_with_something_else_is_at_fault(tmp_path: Path) -> None:
    policy = plugins.make("policy", write(tmp_path, "@task\ndef vote(question, now):\n    return 7\n"))
    with pytest.raises(TypeError, match="a policy's function returns an event, perhaps with fields, or nothing, not 7"):
        policy.begin(QUESTION, 5)


@pytest.mark.parametrize(("named", "function"), [("./vote.py", "vote"), ("vote.py:decide", "decide")])
def test_actors_decide_by_a_function_in_their_folder(named: str, function: str, tmp_path: Path) -> None:
    """The file is found from the folder of the configuration."""
    folder = tmp_path / "run"
    folder.mkdir()
    text = f"{HEAD}@task\ndef {function}(question, now):\n    return 'able' if question.call == 'vote' else None\n"
    (folder / "vote.py").write_text(text)
    with SystemFleet("two_phase_commit", folder, {"participants": 2}, more={"policy": named}) as fleet:
        fleet.client("coordinator").post("begin", machine="coordinator", event="begin")
        deadline = time.monotonic() + 60
        while True:
            rows = [row for name in fleet.roles for row in fleet.client(name).get("leases")]
            if [row["state"] for row in rows] == ["committed"] * 3:
                break
            assert time.monotonic() < deadline, rows
            time.sleep(0.05)
