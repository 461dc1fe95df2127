"""Every verb: exit codes, and what it says when something is wrong."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from leasehold.checker.explore import explore
from leasehold.cli.common import VerbGroup, console
from leasehold.cli.crash import crash
from leasehold.cli.main import cli
from leasehold.faults.model import Budget
from tests.checker.explore.test_bounds import files as counts
from tests.cli.conftest import LIGHT, Run, command, interrupted
from tests.systems import load, write

ONE_UNIT = ("--set", "max_units=1", "--set", "last_end=2")
TAKING_SYSTEM = ("check", "crash", "explore", "lint", "report")
BROKEN = {**LIGHT, "invariants.yaml": "properties: {never_bright: {always: light.state == dark}}\n"}


# 0, 1, 2, 3


@pytest.mark.parametrize(
    ("fair", "code", "words"),
    [
        ("true", 3, "counts is not decided: beyond, never, falls, soon are open beyond the bounds of the search.\n"),
        ("false", 1, "counts fails: beyond, never, falls, rests are violated.\n"),
    ],
)
def test_what_the_bounds_cut_off_is_3(fair: str, code: int, words: str, run: Run, tmp_path: Path) -> None:
    """It is neither said to hold, nor to fail; a run that may stop within the bounds is one that breaks a claim."""
    write(tmp_path / "counts", counts(fair, "constraint: a.k <= 2", "k < 9"))
    done = run("check", "counts")
    assert (done.returncode, done.stdout.startswith(words)) == (code, True), done.stdout
    assert "go on:" not in done.stdout  # exploring has said all that it can


@pytest.mark.parametrize("verb", TAKING_SYSTEM)
def test_what_holds_is_0(verb: str, run: Run, light: Path) -> None:
    done = run(verb, "light")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verb", ["check", "explore", "report"])
def test_a_violation_is_1(verb: str, run: Run, tmp_path: Path) -> None:
    write(tmp_path / "broken", BROKEN)
    assert run(verb, "broken").returncode == 1


@pytest.mark.parametrize("verb", TAKING_SYSTEM)
def test_a_bad_spec_is_2(verb: str, run: Run, light: Path) -> None:
    (light / "roles/light.yaml").write_text(LIGHT["roles/light.yaml"].replace("to: bright", "to: brihgt"))
    done = run(verb, "light")
    assert done.returncode == 2
    assert "light/roles/light.yaml:4:42: error LH404" in done.stdout + done.stderr
    assert "did you mean `bright`?" in done.stdout + done.stderr


@pytest.mark.parametrize("verb", TAKING_SYSTEM)
def test_an_unknown_system_is_2_with_a_near_miss(verb: str, run: Run) -> None:
    done = run(verb, "leese")
    said = done.stdout + done.stderr
    assert done.returncode == 2
    assert said.startswith("error LH703: `leese` is neither a shipped system nor a folder\n  did you mean `lease`?\n")


@pytest.mark.long
@pytest.mark.parametrize("verb", TAKING_SYSTEM)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("max_units",), "--set takes NAME=VALUE, not 'max_units'"),
        (("=3",), "--set takes NAME=VALUE, not '=3'"),
        (("",), "--set takes NAME=VALUE, not ''"),
        (("max_unit=3",), "error LH701: there is no constant `max_unit` to set\n  did you mean `max_units`?"),
        (("max_units=-1",), "error LH702: `max_units` must lie in 1..4000; -1 does not"),
        (("max_units=",), "error LH702: `max_units` is an integer of at most 18 digits; `` is not"),
        (("max_units=two",), "error LH702: `max_units` is an integer of at most 18 digits; `two` is not"),
        (("max_units=1", "max_units=1"), "--set gives 'max_units' twice"),
        (("expiry=yes",), "error LH702: `expiry` is true or false; `yes` is neither"),
    ],
)
def test_a_bad_setting_is_2(verb: str, words: tuple[str, ...], said: str, run: Run, tmp_path: Path) -> None:
    done = run(verb, "lease", *(part for word in words for part in ("--set", word)))
    assert done.returncode == 2
    assert said in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("chek",),
        ("check",),
        ("check", "lease", "--no-such"),
        ("lint",),
        ("init",),
        ("crash", "deep", "lease", "--hours", "0"),
        ("crash", "lease", "--mode", "x"),
        ("explore", "lease", "--depth", "x"),
        ("explore", "lease", "--max-states", "0"),
        ("check", "lease", "--all", "--set", "max_units=1"),
        ("lint", "lease", "--json", "--sarif"),
        ("report", "lease", "--format", "pdf"),
        ("init", "a", "--from", "b"),
    ],
)
def test_bad_usage_is_2(words: tuple[str, ...], run: Run) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: leasehold")


# Help


@pytest.mark.parametrize("verb", [*cli.places, *(f"crash {name}" for name in crash.places)])
def test_help_has_an_example_that_is_right(verb: str, run: Run) -> None:
    done = run(*verb.split(), "--help", COLUMNS="100")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.split("Example:")[1].split("Options:")[0].split("&&")
    words = [w.split() for part in lines for w in part.strip().splitlines()]
    assert words
    for example in words:
        assert example[:1] == ["leasehold"]
        command, given = cli, example[1:]
        while isinstance(command, VerbGroup):
            named = given[0] in command.places
            command = command.get_command(click.Context(command), given[0] if named else command.default)
            given = given[named:]
        context = command.make_context(command.name, given, resilient_parsing=True)
        assert context.params.keys() <= {p.name for p in command.params}
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_help_of_the_whole_names_every_verb(run: Run) -> None:
    done = run("--help")
    assert done.returncode == 0
    assert [verb for verb in cli.places if f"\n  {verb} " not in done.stdout] == []


def test_help_of_the_whole_has_whole_summaries_at_80_columns(run: Run) -> None:
    done = run("--help", COLUMNS="80")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    words = "".join(done.stdout.split())
    for verb in cli.places:
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None
        assert command.help is not None
        summary = " ".join(command.help.split("\n\n")[0].split()).partition(". ")[0].removesuffix(".")
        assert verb + "".join(summary.split()) in words


def test_a_verb_that_is_not_there_has_a_near_miss(run: Run) -> None:
    done = run("chek", "lease")
    assert done.returncode == 2
    assert "there is no verb 'chek'; did you mean check?" in done.stderr


# explore


@pytest.mark.parametrize(
    ("option", "why"), [(("--max-states", "100"), "stopped after 100 states"), (("--depth", "3"), "stopped at depth 3")]
)
def test_a_limited_search_says_bounded(option: tuple[str, ...], why: str, run: Run) -> None:
    done = run("explore", "lease", *option)
    assert done.returncode == 0
    assert f"not complete: {why}\n" in done.stdout
    assert re.search(r"^bounded +valid_ticket$", done.stdout, re.MULTILINE)
    assert "holds " not in done.stdout


@pytest.mark.long
def test_only_judges_what_is_named(run: Run) -> None:
    all_of_them = run("explore", "lease", *ONE_UNIT)
    one = run("explore", "lease", *ONE_UNIT, "--only", "quarantine")
    assert (all_of_them.returncode, one.returncode) == (1, 0)
    assert one.stdout.splitlines()[3:] == ["holds  quarantine"]


@pytest.mark.parametrize("option", ["--only", "--show"])
def test_a_property_that_is_not_there_is_2(option: str, run: Run) -> None:
    done = run("explore", "lease", option, "quarantin")
    assert done.returncode == 2
    assert "lease has no property 'quarantin'; did you mean `quarantine`?" in done.stderr


def test_show_prints_a_witness(run: Run) -> None:
    done = run("explore", "lease", *ONE_UNIT, "--show", "a_lease_is_extended", "--only", "a_lease_is_extended")
    assert done.returncode == 0
    assert "a_lease_is_extended: witnessed\ninitially\n" in done.stdout
    first = "   1  service_manager: demand units=1 start=0 end=3 type=0 properties=0 configuration=0 local=0"
    assert f"{first}  (service_manager/nascent#demand)\n" in done.stdout


def test_a_counterexample_says_what_was_claimed(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "broken", BROKEN)
    done = run("explore", "broken")
    assert done.stdout.endswith(
        "\nnever_bright is violated\n  always  light.state == dark\ninitially\n      light: dark\n"
        "   1  light: press  (light/dark#press)\n        light is bright\n"
        "replay it:  leasehold explore broken --only never_bright --show never_bright\n"
    )
    assert "   1  light: press  [dark -> bright]\n" in run("explore", "broken", "--brief").stdout


@pytest.mark.long
@pytest.mark.parametrize("verb", [("explore",), ("check",), ("explore", "--faults", "crash=1"), ("crash",), ("prove",)])
def test_the_command_that_replays_a_violation_shows_its_path(verb: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    folder = write(tmp_path / "two words", BROKEN)
    (folder / "system.yaml").write_text(
        LIGHT["system.yaml"] + "constants: {most: {type: int, value: 3}}\nclock: {horizon: most}\n"
    )
    (folder / "invariants.yaml").write_text(
        "properties: {never_bright: {always: light.state == dark or running(light)}}\n"
        if verb == ("crash",)
        else BROKEN["invariants.yaml"]
    )
    done = run(*verb, "two words", "--set", "most=2")
    assert done.returncode == 1, done.stdout
    command = re.search(r"^replay it:  leasehold (.*)$", done.stdout, re.MULTILINE)
    assert command is not None
    path = done.stdout[done.stdout.index("\ninitially\n") : command.start()]
    again = run(*shlex.split(command[1]))
    assert again.returncode == 1
    assert path in again.stdout


def test_a_long_path_is_cut_unless_it_is_asked_for(run: Run, tmp_path: Path) -> None:
    ticks = "clock: {horizon: 90}\n"
    claim = "properties: {it_stays: {always: now < 80}}\n"
    write(tmp_path / "light", {**LIGHT, "system.yaml": LIGHT["system.yaml"] + ticks, "invariants.yaml": claim})
    cut = run("explore", "light").stdout
    assert "  30  now 30\n  --- 50 more steps ---\nreplay it:  leasehold explore light " in cut
    assert run("explore", "light", "--show", "it_stays").stdout.endswith("  80  now 80\n")


# check


def test_check_says_what_differs_in_both_directions(run: Run, light: Path) -> None:
    (light / "invariants.yaml").write_text(
        "properties:\n  never_bright: {always: light.state == dark}\n  can_be_dark: {sometimes: light.state == dark}\n"
    )
    (light / "expected.yaml").write_text(
        "runs:\n  one:\n    distinct: 3\n    depth: 1\n    violated: {can_be_dark: it was so}\n"
        "    unvisited: {light/dark#press: the button is broken}\n"
    )
    stopped = run("check", "light")
    assert stopped.returncode == 1
    assert stopped.stdout.startswith("light fails: never_bright is violated.\n")
    assert "\nnot complete: stopped at a violation; --keep-going goes on\n" in stopped.stdout
    assert "expected" not in stopped.stdout  # what is beyond the violation is not known
    assert stopped.stderr.startswith("leasehold: never_bright is violated\n")
    done = run("check", "light", "--keep-going")
    assert done.returncode == 1
    assert done.stdout.startswith("light fails: never_bright is violated.\n")
    assert done.stdout.endswith(
        "\nnot as expected: 4 differences\n"
        "  never_bright: expected to hold, found violated\n"
        "  can_be_dark: expected violated, found holds\n"
        "  distinct: expected 3, found 2\n"
        "  light/dark#press: expected never taken, found taken\n"
        "  remedy: `leasehold check light --write` renews the numbers, if the change is intended\n"
    )


def test_check_explains_nothing_that_happens_under_its_faults(run: Run) -> None:
    """A transition that a crash alone leads to is taken, and a witness without a step shows nothing."""
    done = run("check", str(Path(__file__).parent / "systems/alarmed"))
    assert done.returncode == 1
    assert done.stdout.startswith(
        "alarmed holds: 1 witness was found and 1 witness holds in a first state (there is no"
    )
    assert done.stdout.endswith(
        "\nnot as expected: 2 differences\n"
        "  2 never taken, and not explained in expected.yaml:\n"
        "    asker/asking#gone\n"
        "    teller/told#ask\n"
        "  remedy: change this, or explain it in expected.yaml: `unvisited: {asker/asking#gone: why}`\n"
        "\nalarmed holds, but is not as expected: 2 differences.\n"
    )
    alone = run("check", str(Path(__file__).parent / "systems/alarmed"), "--no-crash")
    assert "    asker/asking#alarm\n" in alone.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("check", "lease", "--time", "5d"), "'5d' is no time; write one such as 90s, 10m or 2h"),
        (("crash", "lease", "--memory=4Q"), "'4Q' is no size of memory; write one such as 800M or 16G"),
    ],
)
def test_a_limit_that_is_none_is_2(words: tuple[str, ...], why: str, run: Run) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert why in done.stderr


def test_check_knows_a_violation_that_is_meant(run: Run, light: Path) -> None:
    (light / "invariants.yaml").write_text("properties: {never_bright: {always: light.state == dark}}\n")
    (light / "expected.yaml").write_text("runs: {one: {distinct: 2, violated: {never_bright: that is its point}}}\n")
    done = run("check", "light")
    assert done.returncode == 0
    assert done.stdout.startswith("light holds: 1 property is violated, as expected (as expected.yaml says).\n")
    assert "violated, as expected  never_bright  counterexample of 1 step\n" in done.stdout
    assert "never_bright is violated" not in done.stdout


def test_the_last_line_of_a_check_that_fails_says_so(run: Run, light: Path) -> None:
    """Faults are tried after it, and may be survived."""
    (light / "system.yaml").write_text(LIGHT["system.yaml"] + "faults: {check: crash=1}\n")
    (light / "invariants.yaml").write_text("properties: {never_dark: {always: light.state == bright}}\n")
    done = run("check", "light")
    assert done.returncode == 1
    assert "\nlight survives crash=1: " in done.stdout
    assert done.stdout.endswith("\n\nlight fails: never_dark is violated.\n")


def test_check_wants_what_is_never_taken_explained(run: Run, light: Path) -> None:
    (light / "roles/light.yaml").write_text(
        LIGHT["roles/light.yaml"].replace("{to: bright}", "[{to: bright, when: 1 < 2}, {to: dark, when: 2 < 1}]")
    )
    done = run("check", "light")
    assert done.returncode == 1
    assert done.stdout.startswith("light holds, but is not as expected: 1 difference.\n")
    assert done.stdout.endswith(
        "  light/dark#press.2: never taken, and not explained in expected.yaml\n"
        "  remedy: change this, or explain it in a run of expected.yaml, which `leasehold check light --write` makes: "
        "`unvisited: {light/dark#press.2: why}`\n"
    )
    (light / "expected.yaml").write_text("runs: {one: {unvisited: {light/dark#press.2: why}}}\n")
    assert run("check", "light").returncode == 0


@pytest.mark.long
def test_check_all_goes_through_every_run(run: Run) -> None:
    done = run("check", "three_phase_commit", "--all")
    assert done.returncode == 0
    assert done.stdout.endswith("settings are as expected\n")
    assert done.stdout.count(" (as expected.yaml says).\n") > 1


@pytest.mark.long
def test_check_says_first_what_it_found_and_lists_properties_if_asked(run: Run, light: Path) -> None:
    brief = run("check", "light").stdout
    assert brief.startswith("light holds: 1 witness was found (there is no expected.yaml with numbers to compare).\n")
    assert "can_be_bright" not in brief
    assert re.search(r"^witnessed +can_be_bright", run("check", "light", "--verbose").stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (("--max-states", "100"), "stopped after 1"),
        (("--depth", "3"), "stopped at depth 3"),
        (("--time", "0.001s"), "stopped after 0 s"),
    ],
)
def test_a_check_that_was_cut_short_says_so_and_exits_with_3(limit: tuple[str, ...], why: str, run: Run) -> None:
    done = run("check", "lease", "--no-crash", *limit)
    assert done.returncode == 3
    assert done.stdout.startswith(f"lease is not decided: no property is violated so far, but {why}")
    commands = ["go on:  leasehold explore lease", "go on:  leasehold prove lease"]
    assert [line for line in done.stdout.splitlines() if line.startswith("go on:")] == commands


@pytest.mark.parametrize("limit", ["--max-states", "--depth"])
def test_a_check_holds_only_where_both_of_its_searches_are_whole(limit: str, run: Run) -> None:
    """A limit that only the search under faults comes to leaves `check` undecided, as one of the first search does."""
    system = load("two_phase_commit", {"participants": 1})
    searches = [explore(system), explore(system, budget=Budget.parse(system.faults.check))]
    legal, faulty = (search.distinct if limit == "--max-states" else search.depth for search in searches)
    for most, code in ((legal - 1, 3), (legal + 1, 3), (faulty - 1, 3), (faulty + 1, 0)):
        done = run("check", "two_phase_commit", "--set", "participants=1", limit, str(most))
        cut = re.findall("^two_phase_commit is not decided( under crash=2)?", done.stdout, re.MULTILINE)
        assert (done.returncode, bool(cut)) == (code, code == 3), most
        assert ("" in cut) == (most < legal)


@pytest.mark.long
def test_a_search_that_grows_names_the_number_without_a_bound(run: Run, light: Path) -> None:
    role = LIGHT["roles/light.yaml"].replace("states:", "data: {times: {type: int, min: 0}}\nstates:")
    (light / "roles/light.yaml").write_text(
        role.replace("{press: {to: bright}}", "{press: {to: bright, set: {times: times + 1}}}")
    )
    (light / "invariants.yaml").write_text("properties: {some: {always: light.times >= 0}}\n")
    words = "nothing bounds light.times: light/dark#press adds to it each time\n"
    assert words in run("check", "light", "--max-states", "50").stdout
    assert words in run("explore", "light", "--depth", "5").stdout
    assert "LH419: nothing bounds `light.times`" in run("lint", "light").stdout


# init


@pytest.mark.parametrize(
    "template", ["starter", pytest.param("lease", marks=pytest.mark.long), "two_phase_commit", "three_phase_commit"]
)
def test_what_init_writes_is_whole(template: str, run: Run, tmp_path: Path) -> None:
    done = run("init", "mine", "--from", template)
    assert (done.returncode, done.stderr) == (0, "")
    written = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.yaml")}
    assert set(done.stdout.split("\n\n")[0].splitlines()) == written
    assert "system: mine\n" in (tmp_path / "mine/system.yaml").read_text()
    assert run("lint", "mine").stdout == "no findings\n"


@pytest.mark.long
def test_what_init_writes_passes_check(run: Run, tmp_path: Path) -> None:
    assert run("init", "mine", "--in", "some/where").returncode == 0
    assert run("check", "some/where/mine", "--all").returncode == 0
    assert "check starter" not in (tmp_path / "some/where/mine/system.yaml").read_text()


@pytest.mark.parametrize("words", [("some/where/mine",), ("./some/where/mine/",), ("where/mine", "--in", "some")])
def test_init_takes_a_path(words: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    done = run("init", *words)
    assert done.returncode == 0
    assert "Now:  leasehold check some/where/mine\n" in done.stdout
    assert load(tmp_path / "some/where/mine").name == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["some"]
    assert "some/where/mine is there already; nothing was changed" in run("init", *words).stderr


def test_init_takes_the_folder_that_one_is_in(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert command("init", ".", cwd=tmp_path / "mine").returncode == 0
    assert load(tmp_path / "mine").name == "mine"
    assert "is there already" in command("init", ".", cwd=tmp_path / "mine").stderr


@pytest.mark.long
def test_what_init_writes_passes_crash_and_prove(run: Run) -> None:
    assert run("init", "mine").returncode == 0
    crashed, proved = run("crash", "mine"), run("prove", "mine")
    assert (crashed.returncode, proved.returncode) == (0, 0)
    assert "stabilises: every fair run returns to a legal state" in crashed.stdout
    assert "not explained" not in crashed.stdout
    assert "undecided" not in proved.stdout


def test_init_takes_an_empty_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert run("init", "mine").returncode == 0
    assert run("lint", "mine").returncode == 0


@pytest.mark.parametrize("there", ["file", "folder", "link"])
def test_init_overwrites_nothing(there: str, run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    if there == "file":
        mine.write_text("precious")
    elif there == "folder":
        (mine / "notes").mkdir(parents=True)
    else:
        mine.symlink_to(tmp_path / "nowhere")
    done = run("init", "mine")
    assert done.returncode == 2
    assert "mine is there already; nothing was changed" in done.stderr
    assert list(tmp_path.rglob("*.yaml")) == []


@pytest.mark.parametrize("name", ["", "Mine", "1st", "../Mine", "mine/..", "a" * 61, "a b", "lease", "for"])
def test_init_wants_a_name(name: str, run: Run, tmp_path: Path) -> None:
    assert run("init", name).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_init_where_nothing_can_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("init", "mine", "--in", "file")
    assert done.returncode == 2
    assert "cannot write to file/mine: Not a directory" in done.stderr


# report


def test_report_writes_its_folder(run: Run, light: Path, tmp_path: Path) -> None:
    done = run("report", "light", "--format", "html", "--format", "junit")
    assert done.returncode == 0
    assert {p.name for p in (tmp_path / "report-light").iterdir()} == {"index.html", "junit.xml"}
    assert "2 files in report-light; start with report-light/index.html\n" in done.stdout


@pytest.mark.parametrize("out", ["file", "file/report"])
def test_report_where_nothing_can_be_written(out: str, run: Run, light: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    done = run("report", "light", "--out", out)
    assert (done.returncode, done.stdout) == (2, "")
    assert (tmp_path / "file").read_text() == "precious"


def test_report_of_a_bad_spec_makes_no_folder(run: Run, tmp_path: Path) -> None:
    run("report", "nowhere")
    assert list(tmp_path.iterdir()) == []


# lint


def test_lint_reads_every_file_of_a_system(run: Run, light: Path) -> None:
    (light / "system.yaml").write_text(LIGHT["system.yaml"] + "faults: {check: crash=one}\n")
    (light / "crash.yaml").write_text("unmet: {'crash:light/drak#before-commit': why}\n")
    (light / "mutation.yaml").write_text("trials: []\n")
    done = run("lint", "light")
    assert done.returncode == 2
    for words in (
        "light/system.yaml:4:9: error LH203: `crash=one` is no budget: crash needs a number from 0 to 99",
        "light/crash.yaml:1:10: error LH602: there is no crash point `crash:light/drak#before-commit`",
        "light/mutation.yaml:1:1: error LH201: `trials` is not a key of a mutation campaign",
    ):
        assert words in done.stdout + done.stderr


def test_a_misspelt_folder_has_a_near_miss(run: Run, light: Path) -> None:
    assert "`lihgt` is neither a shipped system nor a folder\n  did you mean `light`?" in run("lint", "lihgt").stdout


@pytest.mark.long
def test_lint_takes_several_systems(run: Run, light: Path) -> None:
    assert run("lint", "light", "lease").stdout == "no findings\n"
    done = run("lint", "light", "nowhere", "lease")
    assert done.returncode == 2
    assert done.stdout.endswith("1 error\n")


def test_a_warning_is_no_error(run: Run, light: Path) -> None:
    (light / "system.yaml").write_text(LIGHT["system.yaml"] + "constants: {idle: {type: int, value: 1}}\n")
    done = run("lint", "light")
    assert done.returncode == 0
    assert "warning LH506" in done.stdout
    assert done.stdout.endswith("1 warning\n")


# Where the output goes


def test_a_word_between_colons_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("a :lock: and a :key:")
    assert capsys.readouterr().out == "a :lock: and a :key:\n"


@pytest.mark.parametrize("words", [("check", "two_phase_commit"), ("explore", "lease", *ONE_UNIT), ("lint", "nowhere")])
def test_a_file_gets_no_control_characters(words: tuple[str, ...], run: Run) -> None:
    said = run(*words, FORCE_COLOR="1", TERM="xterm-256color")
    text = said.stdout + said.stderr
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.long
@pytest.mark.parametrize("words", ["check two_phase_commit --json", "explore two_phase_commit", "init mine", "--help"])
def test_a_reader_that_goes_away_is_no_trouble(words: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -m leasehold {words} | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words",
    [
        "check two_phase_commit",
        "explore two_phase_commit --json",
        "lint two_phase_commit --json",
        pytest.param("lint lease --json", marks=pytest.mark.long),
    ],
)
def test_a_full_disk_is_said(words: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -m leasehold {words} >/dev/full"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "leasehold: the output cannot be written: No space left on device\n")


TWO_PHASE = Path(__file__).parents[1] / "truth" / "two_phase"


@pytest.mark.parametrize(
    ("size", "says"),
    [
        ("60M", "complete: stopped at its limit of 60 MB of memory"),
        ("0.06gb", "limit of 60 MB"),
    ],
)
def test_a_limit_of_memory(size: str, says: str, run: Run, tmp_path: Path) -> None:
    large = (str(TWO_PHASE), "--set", "resource_managers=8")
    assert says in run("explore", *large, "--memory", size, LEASEHOLD_CACHE=str(tmp_path)).stdout


@pytest.mark.long
@pytest.mark.parametrize("verb", ["explore", "check"])
def test_ctrl_c_ends_the_search_and_prints_what_was_found(verb: str, tmp_path: Path) -> None:
    done = interrupted(verb, "lease", "--set", "max_units=4", cwd=tmp_path)
    assert "not complete: interrupted\n" in done.stdout
    assert done.returncode == 130
