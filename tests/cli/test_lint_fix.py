"""`lint --fix`: what is written, where, and what is left for the user; `--diff` shows the same and writes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest
import yaml

from leasehold.spec import SpecError, load
from leasehold.spec.language.check.lint import TO_DO
from leasehold.spec.language.fixing import fixed
from leasehold.spec.language.load import shipped_folder
from tests.cli import reference
from tests.cli.conftest import Run
from tests.systems import edited, files_of, write

STARTER = files_of("../spec/systems/starter")
LEFT_OUT = (
    ("    ignore: {granted: nothing was asked for}\n", ""),
    (
        "    ignore: {want: it was asked for already, granted: it is for another client}\n",
        "    refuse: {granted: later}\n",
    ),
    (
        "    ignore: {want: it is here, granted: it is here}\n",
        "    ignore:  # so\n      granted: it is here  # and there\n",
    ),
)


def to_do(event: str, state: str) -> str:
    return f'"{TO_DO.format(event=event, state=state)}"'


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A system in which three states do not say what becomes of an event."""
    return write(tmp_path / "mine", edited(STARTER, *LEFT_OUT))


def test_each_event_without_a_place_gets_one_that_is_to_be_thought_about(run: Run, mine: Path) -> None:
    old = (mine / "roles/client.yaml").read_text()
    assert run("lint", "mine").stdout.count("error LH401") == 3
    done = run("lint", "mine", "--fix")
    assert done.returncode == 0
    assert done.stdout.startswith("--- mine/roles/client.yaml\n+++ mine/roles/client.yaml\n")
    assert re.findall("warning LH422: nobody has said why client/(.*) does nothing on (.*)", done.stdout) == [
        ("idle", "`granted`"),
        ("waiting", "`want`"),
        ("holding", "`want`"),
    ]
    new = (mine / "roles/client.yaml").read_text()
    assert f"    refuse:\n      granted: {to_do('granted', 'idle')}\n  waiting:\n" in new
    assert f"\n    refuse: {{granted: later, want: {to_do('want', 'waiting')}}}\n" in new
    behind = f"      granted: it is here  # and there\n    refuse:\n      want: {to_do('want', 'holding')}\n"
    assert behind in new
    lines = new.splitlines()
    assert [line for line in old.splitlines() if line not in lines] == ["    refuse: {granted: later}"]
    assert load(mine).roles["client"].states["idle"].refuse["granted"] == TO_DO.format(event="granted", state="idle")


def test_it_is_done_once(run: Run, mine: Path) -> None:
    run("lint", "mine", "--fix")
    new = (mine / "roles/client.yaml").read_bytes()
    again = run("lint", "mine", "--fix")
    assert again.returncode == 0
    assert again.stdout.startswith("nothing to fix\n")
    assert again.stdout.endswith("\n3 warnings\n")
    assert (mine / "roles/client.yaml").read_bytes() == new


def test_the_difference_alone_is_shown_and_nothing_written(run: Run, mine: Path) -> None:
    before = {path: path.read_bytes() for path in mine.rglob("*.yaml")}
    shown = run("lint", "mine", "--diff")
    assert shown.returncode == 2
    assert {path: path.read_bytes() for path in mine.rglob("*.yaml")} == before
    written = run("lint", "mine", "--fix").stdout
    assert written.startswith(shown.stdout)
    clean = run("lint", "mine", "--diff")
    assert (clean.returncode, clean.stdout, clean.stderr) == (0, "", "nothing to fix\n")


def test_json_has_the_changes_and_what_is_left(run: Run, mine: Path) -> None:
    found = json.loads(run("lint", "mine", "--diff", "--json").stdout)
    assert found.keys() == {*reference.ERROR_KEYS, *reference.FIX_KEYS}
    assert (found["errors"], found["by_hand"]) == (3, [])
    assert found["changes"][0] == "--- mine/roles/client.yaml"
    assert json.loads(run("lint", "mine", "--fix", "--json").stdout)["changes"] == found["changes"]
    again = json.loads(run("lint", "mine", "--fix", "--json").stdout)
    assert {one["code"] for one in again.pop("diagnostics")} == {"LH422"}
    assert again == {"errors": 0, "changes": [], "by_hand": []}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("initial: true", "initial: yes"),
        ("tasks: [work]", "task: [work]"),
        ("to: waiting", "to: waitng"),
        ("to: waiting", "to: 'waitng'"),
        ("tasks: [give_back]", "tasks: [giveback]"),
        ("release: not from", "relase: not from"),
        ("event.who in waiting", "event.who in waitin"),
        ("event.who in waiting", "who in waiting"),
    ],
)
def test_a_near_miss_of_one_name_gives_its_place_to_it(right: str, wrong: str, run: Run, tmp_path: Path) -> None:
    files = edited(STARTER, (right, wrong))
    write(tmp_path / "mine", files)
    assert run("lint", "mine").returncode == 2
    done = run("lint", "mine", "--fix")
    assert done.stdout.endswith("no findings\n"), done.stdout
    now = {name: (tmp_path / "mine" / name).read_text() for name in files}
    assert {name: text.replace("'waiting'", "waiting") for name, text in now.items()} == STARTER


@pytest.mark.parametrize("wrong", ["to: hold", "to: retained", "to: x"])
def test_what_may_mean_several_or_none_is_left_to_the_user(wrong: str, run: Run, tmp_path: Path) -> None:
    states = "  holder:\n    on: {want: {to: holding}}\n    others: {ignore: so}\n  holding:\n    tasks"
    files = edited(STARTER, ("to: holding,", f"{wrong},"), ("  holding:\n    tasks", states))
    write(tmp_path / "mine", files)
    done = run("lint", "mine", "--fix")
    assert done.returncode == 2
    assert done.stdout.startswith("nothing to fix\n")
    assert (tmp_path / "mine/roles/client.yaml").read_text() == files["roles/client.yaml"]


def test_a_layout_that_takes_no_entry_is_told(run: Run, mine: Path) -> None:
    role = mine / "roles/client.yaml"
    role.write_text(
        role.read_text().replace("    refuse: {granted: later}\n", "    ? refuse\n    : {granted: later, }\n")
    )
    assert "error" not in run("lint", "mine", "--fix").stdout
    role.write_text(role.read_text().replace("to: waiting", 'to: "wait\\u0069ngs"'))
    done = run("lint", "mine", "--fix")
    assert done.returncode == 2
    assert "not fixed: mine/roles/client.yaml: line 13: write `waiting` for `waitings` by hand" in done.stderr


@pytest.mark.parametrize("words", [("lease", "--fix"), ("lease", "--diff"), ("mine", "--fix", "--sarif")])
def test_what_cannot_be_fixed_is_refused(words: tuple[str, ...], run: Run, mine: Path) -> None:
    assert run("lint", *words).returncode == 2
    assert len(load_findings(mine)) == 3


def load_findings(folder: Path) -> list[str]:
    try:
        load(folder)
    except SpecError as error:
        return [d.code for d in error.diagnostics]
    return []


def test_a_role_of_a_shipped_system_stays(tmp_path: Path) -> None:
    """A folder of the user's may use such a file; what is wrong with its use is not written into the package."""
    lease = shipped_folder("lease")
    before = {path: path.read_bytes() for path in lease.rglob("*.yaml")}
    text = (lease / "system.yaml").read_text()
    for role in ("service_manager", "broker", "authority", "unit", "guest"):
        text = text.replace(f"  {role}: {{", f"  {role}: {{file: {lease}/roles/{role}.yaml, ", 1).replace(", }", "}")
    messages = (lease / "messages.yaml").read_text() + "  nudge: {from: broker, to: authority}\n"
    folder = write(tmp_path / "mine", {"system.yaml": text, "messages.yaml": messages})
    found = fixed(str(folder), {})
    assert "LH401" in load_findings(folder)
    assert any("it comes with Leasehold" in words for words in found.by_hand)
    assert {path: path.read_bytes() for path in lease.rglob("*.yaml")} == before
    assert not found.files


# Layouts by chance


@pytest.mark.parametrize("seed", range(12))
def test_a_system_whose_states_name_nothing_is_clean_afterwards(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    flow = chance.choice((True, False, None))
    files = dict(STARTER)
    for name in ("roles/client.yaml", "roles/server.yaml"):
        role = yaml.load(files[name], yaml.BaseLoader)
        for state in role["states"].values():
            if chance.random() < 0.8:
                state.pop("ignore", None)
        files[name] = yaml.safe_dump(role, default_flow_style=flow, width=chance.choice((40, 80, 200)), sort_keys=False)
    folder = write(tmp_path / "mine", files)
    kept = {"LH415"}  # the cases that guards leave over are for the author
    found = fixed(str(folder), {})
    assert found.by_hand == ()
    for file in found.files:
        file.path.write_text(file.new)
    assert set(load_findings(folder)) <= {*kept, "LH422"}
    assert fixed(str(folder), {}).files == ()
