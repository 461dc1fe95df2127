"""leasehold mutate: what it prints, and its exit codes."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, as_json, interrupted
from tests.cli.test_json import _same, reference
from tests.systems import files_of, write

LAMP = files_of("cli/systems/lamp")
SURVIVOR = "ignore_event lamp/bright#press"


@pytest.fixture
def lamp(tmp_path: Path) -> Path:
    return write(tmp_path / "lamp", LAMP)


def found_by(done: subprocess.CompletedProcess[str]) -> Any:
    """Returns what a campaign printed as JSON; its progress names survivors as soon as they are known."""
    assert all(line.startswith(("leasehold: survives", "leasehold: unseen")) for line in done.stderr.splitlines())
    return as_json(subprocess.CompletedProcess(done.args, done.returncode, done.stdout, ""))


def explain(lamp: Path, *lines: str) -> None:
    (lamp / "mutation.yaml").write_text("battery: [{}]\nexplained:\n" + "".join(f"  {line}\n" for line in lines))


def test_a_survivor_is_1(run: Run, lamp: Path) -> None:
    done = run("mutate", "lamp", "--jobs", "1")
    assert (done.returncode, done.stderr) == (1, f"leasehold: survives: {SURVIVOR}\n")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("lamp  spec ")
    assert lines[1].startswith("1 of 2 killed (50.0 %), 2 refused, 0 equivalent, 0 unseen, ")
    assert lines[2:] == [
        "  swap_target   1 of 1 killed (100.0 %), 1 refused, 0 equivalent, 0 unseen",
        "  ignore_event  0 of 1 killed (0.0 %), 1 refused, 0 equivalent, 0 unseen",
        "killed by",
        "      1  goes_dark",
        "survivors (1, 1 not explained)",
        f"  {SURVIVOR}",
        "      lamp/roles/lamp.yaml:5: ignored",
        "      noticed, but by no claim about runs: vacuous: goes_dark",
        "      an observer sees, in the declared constants:",
        "        press at lamp; lamp is bright",
        "        then the system: press at lamp; lamp is dark",
        "        then the mutant: nothing such",
    ]


def test_what_is_explained_is_0(run: Run, lamp: Path) -> None:
    explain(lamp, f"{SURVIVOR}: nobody cares for the dark")
    done = run("mutate", "lamp")
    assert (done.returncode, done.stderr) == (0, f"leasehold: survives, as is explained: {SURVIVOR}\n")
    assert "survivors (1, all explained)\n" in done.stdout
    assert "      explained: nobody cares for the dark\n" in done.stdout


@pytest.mark.long
def test_an_explanation_that_is_out_of_date_is_1(run: Run, lamp: Path) -> None:
    explain(lamp, f"{SURVIVOR}: nobody cares for the dark", "swap_target lamp/dark#*: it is killed")
    done = run("mutate", "lamp")
    assert done.returncode == 1
    assert "out of date: nothing that is explained as `swap_target lamp/dark#*` survives\n" in done.stdout
    assert run("mutate", "lamp", "--only", "*bright#*").returncode == 0


def test_json(run: Run, lamp: Path) -> None:
    explain(lamp, "swap_target lamp/dark#*: it is killed")
    done = run("mutate", "lamp", "--json")
    assert done.returncode == 1
    found = found_by(done)
    _same(found, reference.MUTATE_KEYS)
    _same(found["survivors"][0], reference.SURVIVOR_KEYS)
    _same(found["survivors"][0]["seen"], reference.SEEN_KEYS)
    _same(found["kills"][0], reference.KILL_KEYS)
    assert (found["mutants"], found["killed"], found["score"], found["undecided"]) == (4, 1, 0.5, 0)
    assert list(found["refused"]) == ["swap_target lamp/dark#press -> dark", "ignore_event lamp/dark#press"]
    assert (found["equivalent"], found["unseen"]) == ([], [])
    assert found["out_of_date"] == ["swap_target lamp/dark#*"]
    assert found["survivors"] == [
        {
            "name": SURVIVOR,
            "rule": "ignore_event",
            "place": "lamp/roles/lamp.yaml:5",
            "what": "ignored",
            "explanation": None,
            "noticed": "vacuous: goes_dark",
            "cut_short": False,
            "seen": {
                "setting": {},
                "faults": None,
                "before": ["press at lamp; lamp is bright"],
                "system": "press at lamp; lamp is dark",
                "mutant": "",
            },
        }
    ]
    assert found["kills"] == [
        {
            "name": "swap_target lamp/bright#press -> bright",
            "property": "goes_dark",
            "setting": {},
            "faults": None,
            "steps": 2,
        }
    ]
    assert found["by_rule"] == {
        "swap_target": {"mutants": 2, "killed": 1, "score": 1.0, "refused": 1, "equivalent": 0, "unseen": 0},
        "ignore_event": {"mutants": 2, "killed": 0, "score": 0.0, "refused": 1, "equivalent": 0, "unseen": 0},
    }
    assert found["by_property"] == {"goes_dark": 1}


@pytest.mark.long
def test_some_of_the_mutants(run: Run) -> None:
    small = ("two_phase_commit", "--jobs", "1", "--json")
    by_rule = found_by(run("mutate", *small, "--rule", "drop_task", "--rule", "drop_guard", "--only", "*coordinator*"))
    some = [
        *by_rule["refused"],
        *by_rule["equivalent"],
        *by_rule["unseen"],
        *(o["name"] for o in by_rule["kills"] + by_rule["survivors"]),
    ]
    assert {name.split("/")[0] for name in some} == {"drop_guard coordinator", "drop_task coordinator"}
    samples = [found_by(run("mutate", *small, "--sample", "4", "--seed", seed)) for seed in ("1", "1", "2")]
    names = [
        {*s["refused"], *s["equivalent"], *s["unseen"], *(o["name"] for o in s["kills"] + s["survivors"])}
        for s in samples
    ]
    assert names[0] == names[1] != names[2]
    assert {len(n) for n in names} == {4}


def test_constants_go_into_every_trial(run: Run, tmp_path: Path) -> None:
    """Results so found say nothing of the system as it is, and are not kept."""
    env = {"LEASEHOLD_CACHE": str(tmp_path / "cache")}
    small = ("two_phase_commit", "--set", "participants=1", "--rule", "drop_task", "--json")
    found = found_by(run("mutate", *small, **env))
    assert {k["setting"]["participants"] for k in found["kills"]} == {"1"}
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rule", "drop"), "'drop' is not one of"),
        (("--sample", "0"), "0 is not in the range x>=1"),
        (("--jobs", "0"), "0 is not in the range x>=1"),
        (("--only", "nothing"), "no mutant of lamp is made by this rule and fits this pattern"),
        (("--set", "x"), "--set takes NAME=VALUE, not 'x'"),
    ],
)
def test_bad_usage_is_2(words: tuple[str, ...], said: str, run: Run, lamp: Path) -> None:
    done = run("mutate", "lamp", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.long
def test_a_bad_battery_is_2(run: Run, lamp: Path) -> None:
    (lamp / "mutation.yaml").write_text("battery: [{faults: crush=1}]\n")
    done = run("mutate", "lamp")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lamp/mutation.yaml:1:20: error LH203: `crush=1` is no budget: ")
    said = as_json(run("mutate", "lamp", "--json"))
    assert [d["code"] for d in said["diagnostics"]] == ["LH203"]


def test_a_bad_spec_is_2(run: Run, lamp: Path) -> None:
    (lamp / "roles/lamp.yaml").write_text(LAMP["roles/lamp.yaml"].replace("to: bright", "to: brihgt"))
    done = run("mutate", "lamp")
    assert done.returncode == 2
    assert "did you mean `bright`?" in done.stderr


@pytest.mark.long
def test_a_system_at_fault_is_2(run: Run, lamp: Path) -> None:
    (lamp / "roles/lamp.yaml").write_text(
        LAMP["roles/lamp.yaml"]
        .replace("to: bright", "to: bright, set: {n: n + 1}")
        .replace("events:", "data: {n: {type: int, max: 1}}\nevents:")
    )
    done = run("mutate", "lamp")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the system itself cannot be explored to the end: lamp with the declared constants: " in done.stderr


@pytest.mark.long
def test_ctrl_c_reports_what_is_known(tmp_path: Path) -> None:
    words = ("mutate", "two_phase_commit", "--set", "participants=4", "--jobs", "2")
    done = interrupted(*words, cwd=tmp_path, once=" killed")
    assert "more are not decided\n" in done.stdout
    assert done.returncode == 130


@pytest.mark.long
def test_check_tells_what_no_property_misses(run: Run, lamp: Path) -> None:
    """Nothing does before mutants were tried; what was tried of another text, or of another battery, does not count."""
    env = {"LEASEHOLD_CACHE": str(lamp.parent / "cache")}
    assert "no property would miss" not in run("check", "lamp", **env).stdout
    assert as_json(run("check", "lamp", "--json", **env))["not_missed"]["mutants"] is None
    run("mutate", "lamp", "--rule", "ignore_event", **env)
    assert "\nno property would miss 1 transition: lamp/bright#press\n" in run("check", "lamp", **env).stdout
    told = run("check", "lamp", "--verbose", **env).stdout
    assert f"no property would miss 1 transition\n  lamp/bright#press: no property finds {SURVIVOR}\n" in told
    found = as_json(run("check", "lamp", "--json", **env))["not_missed"]
    assert found == {
        "data": [],
        "fields": [],
        "transitions": [],
        "mutants": {"tried": 2, "not_found": {"lamp/bright#press": [SURVIVOR]}},
    }
    explain(lamp, f"{SURVIVOR}: nobody cares for the dark")
    assert as_json(run("check", "lamp", "--json", **env))["not_missed"]["mutants"] is None
    run("mutate", "lamp", **env)
    mutants = as_json(run("check", "lamp", "--json", **env))["not_missed"]["mutants"]
    assert mutants == {"tried": 2, "not_found": {"lamp/bright#press": [SURVIVOR]}}
    (lamp / "roles/lamp.yaml").write_text(LAMP["roles/lamp.yaml"].replace("Somebody presses", "One presses"))
    assert as_json(run("check", "lamp", "--json", **env))["not_missed"]["mutants"] is None


def test_results_of_several_campaigns_are_kept_together(run: Run, lamp: Path) -> None:
    """And a file that is not whole is none."""
    env = {"LEASEHOLD_CACHE": str(lamp.parent / "cache")}
    for rule in ("swap_target", "ignore_event"):
        run("mutate", "lamp", "--rule", rule, **env)
    (kept,) = (lamp.parent / "cache/mutants").iterdir()
    assert '"swap_target lamp/bright#press -> bright":"killed"' in kept.read_text()
    assert f'"{SURVIVOR}":"survives"' in kept.read_text()
    kept.write_text("{")
    assert "no property would miss" not in run("check", "lamp", **env).stdout
