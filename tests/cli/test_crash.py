"""`leasehold crash`, and the crashes of `leasehold check`: what is printed, written and answered."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from functools import reduce
from itertools import permutations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from leasehold.checker.crash.analysis import CrashReport, deepen
from leasehold.checker.explore.result import Path as EvidencePath
from leasehold.checker.explore.result import Snapshot, Step
from leasehold.cli.common import console
from leasehold.cli.crash import _comes_before
from leasehold.cli.main import cli
from leasehold.faults.model import Budget
from leasehold.reports import terminal
from leasehold.spec import System
from tests.cli.conftest import LIGHT, Run, as_json
from tests.systems import files_of, write

SMALL = ("two_phase_commit", "--set", "participants=1")
SAGA = Path(__file__).resolve().parents[2] / "examples/saga"
CASE = ("asking/voting", "crash:participant/voting#after-commit")
ASKED = files_of("cli/systems/asked")
SHY = files_of("cli/systems/shy")


@pytest.mark.long
def test_what_holds_is_said_in_a_few_lines(run: Run) -> None:
    done = run("crash", *SMALL, "--faults", "crash=1")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "faults crash=1 (--faults)"
    assert lines[1].startswith("two_phase_commit  participants=1  spec ")
    assert re.search(
        r"^\d+ of \d+ crash points tried; \d+ cases \(cell, crash point, mode\)$", done.stdout, re.MULTILINE
    )
    assert re.search(
        r"^\d+ cells reached: \d+ without faults too, 0 with faults alone; \d+ never", done.stdout, re.MULTILINE
    )
    assert "\nstabilises: every fair run returns to a legal state, in at most " in done.stdout
    assert re.search(
        r"^coordinator +participant\[0\] +reached +points +any +steps +messages$", done.stdout, re.MULTILINE
    )
    assert re.search(r"^\d+ properties hold under these faults$", lines[-1])


@pytest.mark.long
def test_the_systems_own_budget_and_settings(run: Run, tmp_path: Path) -> None:
    own = "faults: {budget: crash=1, set: {clients: 3}}\n"
    run("init", "mine")
    system = tmp_path / "mine/system.yaml"
    system.write_text(system.read_text().replace("faults: {check: crash=1}\n", own))
    first = run("crash", "mine").stdout.splitlines()[:2]
    assert first[0] == "faults crash=1 (system.yaml); clients=3 (set for faults in system.yaml)"
    assert first[1].startswith("mine  clients=3 ")
    other = run("crash", "mine", "--set", "clients=2", "--faults", "none").stdout.splitlines()[:2]
    assert other[0] == "faults none (--faults)"
    assert other[1].startswith("mine  clients=2 ")


def test_what_faults_break_is_shown_with_the_weakest(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "asked", ASKED)
    done = run("crash", "asked", "--keep-going")
    assert done.returncode == 1
    assert "\nonce breaks under crash=1, and under no weaker faults\n" in done.stdout
    assert "\nonce is violated\n  always  teller.state != twice\ninitially\n" in done.stdout
    assert re.search(r"^ +\d+  CRASH teller: crash:teller/once#before-acknowledge, on asked from", done.stdout, re.M)
    assert re.search(r"^  \d+ recovery states? counts? as returned: no step has to happen there", done.stdout, re.M)


@pytest.mark.long
def test_a_search_that_was_cut_short_promises_nothing(run: Run) -> None:
    done = run("crash", "deep", "lease", "--hours", "0.0001")
    assert done.returncode == 0
    assert re.search(r"^crash=2,duplicate=1,lose=1 .* cut off: stopped after 0 s$", done.stdout, re.M)
    assert "\nnot checked whether it stabilises: stopped after 0 s\n" in done.stdout
    assert "hold under these faults" not in done.stdout


def test_explore_names_ends_where_a_run_comes_to_rest_and_the_system_has_none(run: Run, tmp_path: Path) -> None:
    hint = "if the system may rest there:  name the condition under `ends` in invariants.yaml"
    options = ("--faults", "crash=1", "--keep-going", "--brief")
    bare = run("explore", str(SAGA), *options).stdout
    assert "does not stabilise" in bare
    assert bare.splitlines()[-1] == hint
    ended = shutil.copytree(SAGA, tmp_path / "ended")
    with (ended / "invariants.yaml").open("a") as file:
        file.write("ends: {over: trip.state == travelling}\n")
    done = run("explore", str(ended), *options).stdout
    assert "does not stabilise" in done
    assert hint not in done


def test_explore_says_which_faults_strike_nothing_and_which_do_not_stop(run: Run) -> None:
    done = run("explore", *SMALL, "--faults", "drift=10,lose=1")
    assert "\ndrift strikes nothing: there is no clock\n" in done.stdout
    assert "lose strikes nothing" not in done.stdout
    assert done.stdout.endswith(
        "\nfaults lose=1,drift=10\nnot checked whether it stabilises: clocks continue to differ\n"
    )


@pytest.mark.long
def test_a_budget_is_approached_from_one_crash_on(run: Run) -> None:
    """Findings for the stated budget are those of `--faults` for it alone."""
    done = run("crash", *SMALL)
    lines = done.stdout.splitlines()
    assert lines[0] == "faults crash=1 to crash=2 (system.yaml)"
    assert re.match(r"crash=1 +[\d,]+ states +[\d.]+ s  holds$", lines[1])
    assert re.match(r"crash=2 +[\d,]+ states +[\d.]+ s  holds$", lines[2])
    assert lines[3:5] == ["", "under crash=2:"]
    found, alone = (as_json(run("crash", *SMALL, *more, "--json")) for more in ((), ("--faults", "crash=2")))
    assert [b["faults"] for b in found.pop("budgets")] == ["crash=1", "crash=2"]
    measured = ("seconds", "peak_memory_bytes")
    assert {k: v for k, v in found.items() if k not in measured} == {
        k: v for k, v in alone.items() if k not in measured
    }


@pytest.mark.parametrize("complete", list(product((True, False), repeat=3)))
@pytest.mark.parametrize("broken", list(product((True, False), repeat=3)))
def test_the_largest_budget_that_is_decided_is_told_of_whatever_came_first(
    complete: tuple[bool, ...], broken: tuple[bool, ...]
) -> None:
    """A search that was cut short has decided nothing, unless something breaks."""
    budgets = [Budget(crash=n) for n in (1, 2, 3)]
    reports: list[Any] = [
        SimpleNamespace(budget=budget, complete=whole, broken=("ends",) if wrong else ())
        for budget, whole, wrong in zip(budgets, complete, broken, strict=True)
    ]
    decided = [report for report in reports if report.complete or report.broken]
    for some in permutations(reports):
        told = reduce(lambda last, one: one if _comes_before(one, last, budgets) else last, some)
        assert told is (decided[-1] if decided else some[0])


def test_the_whole_budget_is_told_of_where_it_was_decided_first(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "asked", {**ASKED, "invariants.yaml": "ends: {done: teller.state == once}\n"})
    found = json.loads(run("crash", "asked", "--keep-going", "--json").stdout)
    assert (found["faults"], found["holds"]) == ("crash=1,duplicate=1", False)


def test_parts_of_a_budget_that_follow_from_the_whole_are_not_explored(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "shy", SHY)
    system = tmp_path / "shy/system.yaml"
    system.write_text(system.read_text().replace("faults: {", "faults: {budget: 'crash=2,duplicate=1', "))
    lines = run("crash", "shy").stdout.splitlines()
    assert re.match(r"crash=1 +\d+ states +[\d.]+ s  holds$", lines[1])
    assert re.match(r"crash=2,duplicate=1 +\d+ states +[\d.]+ s  holds$", lines[2])
    assert re.match(r"crash=1,duplicate=1 +holds, as it does under the last$", lines[3])
    assert lines[4:6] == ["", "under crash=2,duplicate=1:"]
    found = as_json(run("crash", "shy", "--json"))["budgets"]
    assert [(b["faults"], b["states"] is None, b["complete"]) for b in found] == [
        ("crash=1", False, True),
        ("crash=1,duplicate=1", True, True),
        ("crash=2,duplicate=1", False, True),
    ]


@pytest.mark.parametrize(
    ("budget", "words", "said"),
    [
        ("budget: 'crash=2,duplicate=1', ", (), "crash=1 to crash=2,duplicate=1 (system.yaml)"),
        ("budget: 'crash=1', ", (), "crash=1 (system.yaml)"),
        ("budget: 'crash=2', ", ("--time", "90"), "crash=1 to crash=2 (system.yaml), 90 s at most (--time)"),
        ("budget: 'crash=2', ", ("--faults", "crash=1"), "crash=1 (--faults)"),
        ("", ("--faults", "crash=1", "--time", "2m"), "crash=1 (--faults), 120 s at most (--time)"),
        (
            "",
            ("--time", "0.001s"),
            "crash=1 to crash=2,duplicate=1,lose=1 (the default), 0.001 s at most (--time)",
        ),
    ],
)
def test_faults_are_said_with_who_asks_for_them_and_the_limit_of_time(
    budget: str, words: tuple[str, ...], said: str, run: Run, tmp_path: Path
) -> None:
    """Only the default budget has a limit of its own, in the place of which comes the one that is given."""
    write(tmp_path / "shy", SHY)
    system = tmp_path / "shy/system.yaml"
    system.write_text(system.read_text().replace("faults: {", f"faults: {{{budget}"))
    assert run("crash", "shy", *words).stdout.splitlines()[0] == f"faults {said}"


@pytest.mark.long
def test_what_time_does_not_suffice_for_is_named(run: Run, light: Path) -> None:
    """The default budget has a limit of time, which is said; what is beyond it is not called decided."""
    whole = run("crash", "light")
    assert whole.stdout.startswith(
        "faults crash=1 to crash=2,duplicate=1,lose=1 (the default), 60 s at most (--time)\n"
    )
    cut = run("crash", "light", "--time", "0.001s")
    assert cut.returncode == 0
    assert "\nnot decided: " in cut.stdout
    assert "crash=2,duplicate=1,lose=1 (--time gives more time)\n" in cut.stdout


@pytest.mark.long
def test_points_are_listed_without_exploring(run: Run) -> None:
    done = run("crash", "points", "lease")
    assert done.returncode == 0
    assert re.search(r"^crash:authority/priming#after-place +done before: place$", done.stdout, re.M)
    assert re.search(r"^crash:service_manager/closing#before-commit$", done.stdout, re.M)
    assert re.search(r"^crash:service_manager/closing#before-acknowledge$", done.stdout, re.M)
    assert done.stdout.splitlines()[-1] == f"{len(done.stdout.splitlines()) - 1} crash points"


def test_a_case_is_shown_step_by_step(run: Run, tmp_path: Path) -> None:
    done = run("crash", "case", *SMALL, *CASE, "--faults", "crash=1", "--out", "there")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[1].startswith("asking/voting, crash:participant/voting#after-commit, any: legal again ")
    assert "  CRASH participant[0]: crash:participant/voting#after-commit, on ask from coordinator" in done.stdout
    assert "  RECOVER participant[0]: recover:participant[0]\n" in done.stdout
    drawing = tmp_path / "there/asking.voting.participant_voting_after-commit.any.svg"
    assert lines[-1] == f"wrote {drawing.relative_to(tmp_path)}"
    ElementTree.fromstring(drawing.read_text())


def test_what_is_written(run: Run, tmp_path: Path) -> None:
    done = run("crash", *SMALL, "--faults", "crash=1", "--out", "there")
    assert done.stdout.endswith("wrote there/crash.md, there/crash.json, there/worst.svg\n")
    found = json.loads((tmp_path / "there/crash.json").read_text())
    assert found["scenarios"] > 0
    assert "seconds" not in found
    assert (tmp_path / "there/crash.md").read_text().startswith("# two\\_phase\\_commit under `crash=1`\n")
    ElementTree.fromstring((tmp_path / "there/worst.svg").read_text())


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--faults", "crush=1"), "--faults: there is no fault 'crush'; did you mean crash?"),
        (("--faults", "byzantine=participent"), "has no role 'participent'; did you mean `participant`?"),
        (("--faults", "deep"), "there is no fault 'deep'; `leasehold crash deep SYSTEM` tries ever larger budgets"),
        (("--faults", "none=1"), "--faults: `none` stands alone, without a number or other faults\n"),
    ],
)
def test_what_cannot_be_asked_is_2(words: tuple[str, ...], said: str, run: Run) -> None:
    done = run("crash", *SMALL, *words)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(("words", "seconds"), [((), 3600), (("--hours", "0.5"), 1800), (("--hours", "8"), 28800)])
def test_hours_are_so_many_seconds(words: tuple[str, ...], seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float | None] = []

    def explored(system: System, limit: float | None, *rest: Any) -> Iterator[CrashReport]:
        given.append(limit)
        yield next(deepen(system, limit, *rest[:-1], [Budget.parse("crash=1")]))

    monkeypatch.setattr("leasehold.cli.crash.deepen", explored)
    done = CliRunner().invoke(cli, ["crash", "deep", *SMALL, *words])
    assert (done.exit_code, given) == (0, [seconds])


@pytest.mark.parametrize("hours", ["nan", "inf"])
def test_hours_come_to_an_end(hours: str, run: Run) -> None:
    for verb in ("deep", "random"):
        done = run("crash", verb, *SMALL, "--hours", hours)
        assert done.returncode == 2
        assert f"{hours} is no number that a search or a wait could come to; write one such as 8" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("asking/voting",), "Missing argument 'POINT'"),
        (("asking", "x"), "has 2 states (coordinator, participant[0]), such as idle/working"),
        (("asking/votign", "x"), "participant[0] has no state 'votign'; did you mean `voting`?"),
        (
            ("asking/voting", "crash:participant/voting#after-comit"),
            "did you mean `crash:participant/voting#after-commit`?",
        ),
        ((*CASE, "--mode", "anny"), "has no mode 'anny'; did you mean `any`?"),
        (("idle/voting", CASE[1]), "no case has the cell idle/voting; did you mean"),
        (
            ("asking/working", CASE[1]),
            "nothing stops at crash:participant/voting#after-commit in asking/working; did you mean",
        ),
        ((*CASE, "--faults", "halt=1"), "no case was tried: nobody crashes under halt=1"),
    ],
)
def test_what_is_no_case_is_2(words: tuple[str, ...], said: str, run: Run) -> None:
    done = run("crash", "case", *SMALL, *words)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(("verb", "key"), [("crash", "budget"), ("check", "check")])
def test_a_bad_budget_in_system_yaml_is_2(verb: str, key: str, run: Run, light: Path) -> None:
    system = light / "system.yaml"
    system.write_text(LIGHT["system.yaml"] + f"faults: {{{key}: crush=1}}\n")
    done = run(verb, "light")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"light/system.yaml:4:9: faults.{key}: there is no fault 'crush'; did you mean crash?" in done.stderr


def test_a_folder_that_cannot_be_written_is_2(run: Run, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    done = run("crash", *SMALL, "--out", "there/folder")
    assert done.returncode == 2
    assert "cannot write to there/folder: Not a directory" in done.stderr


@pytest.mark.long
def test_the_worst_case_is_named_with_its_command(run: Run) -> None:
    """The command that is printed shows the case, with as many steps as were said."""
    done = run("crash", *SMALL, "--faults", "crash=1")
    words = " ".join(done.stdout.split())
    said = re.search(r"the worst case is (\S+), (\S+), any: (\d+) steps, \d+ messages; it is counted", words)
    assert said is not None, done.stdout
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("  leasehold crash ")]
    shown = run(*shlex.split(command)[1:])
    assert shown.returncode == 0
    assert f"\n{said[1]}, {said[2]}, any: legal again at most {said[3]} steps and " in shown.stdout


@pytest.mark.long
def test_what_was_not_asked_is_null_and_what_was_tried_is_told(run: Run) -> None:
    """An actor that halts does not come back; crashes are tried all the same."""
    found = as_json(run("crash", *SMALL, "--faults", "crash=1,halt=1", "--keep-going", "--json"))
    assert found["crash_points"] > 20
    assert found["scenarios"] > 50
    nothing = ["converges", "worst_steps", "worst_case", "worst_path", "legal_states"]
    assert [found[key] for key in nothing] == [None] * len(nothing)
    done = run("crash", "case", *SMALL, *CASE, "--faults", "crash=1,halt=1")
    assert ", any: whether it returns was not checked\n" in done.stdout
    text = run("crash", *SMALL, "--faults", "crash=1,halt=1", "--keep-going").stdout
    assert re.search(r"^asking +voting +legal +\d+ +\d+ +not checked$", text, re.M)
    cut = as_json(run("crash", "deep", "lease", "--hours", "0.0001", "--json"))
    assert [cut[key] for key in ("crash_points", "crash_points_not_met", "scenarios")] == [None] * 3


@pytest.mark.long
def test_a_case_that_does_not_return_says_so(run: Run, tmp_path: Path) -> None:
    """A message that comes again over a plain queue is taken for new, and the teller never comes out of `twice`."""
    write(tmp_path / "asked", {**ASKED, "invariants.yaml": "ends: {done: teller.state == once}\n"})
    case = ("asking/once", "crash:teller/once#before-acknowledge")
    done = run("crash", "case", "asked", *case, "--faults", "crash=1")
    assert done.returncode == 1
    assert ", any: once faults stop, a run never returns to a legal state\n" in done.stdout
    assert done.stdout.endswith(
        "  --- nothing more happens ---\n  in the nearest legal state teller is once (here twice)\n"
    )
    whole = run("crash", "asked", "--faults", "crash=1", "--keep-going").stdout
    assert "--- nothing more happens ---\n  in the nearest legal state teller is once (here twice)\n" in whole
    found = as_json(run("crash", "asked", "--faults", "crash=1", "--keep-going", "--json"))
    returns = {tuple(cell["control"]): cell["returns"] for cell in found["cells"]}
    assert returns["asking", "once"] is False
    assert returns["idle", "idle"] is True
    assert found["worst_path"]["steps"]
    assert found["not_legal"] == [{"what": "teller", "here": "twice", "legal": "once"}]


@pytest.mark.parametrize("verb", [("crash", "--faults", "crash=1", "--keep-going"), ("check", "--keep-going")])
def test_the_run_that_never_returns_is_the_case_that_its_command_shows(
    verb: tuple[str, ...], run: Run, tmp_path: Path
) -> None:
    write(tmp_path / "asked", {**ASKED, "invariants.yaml": "ends: {done: teller.state == once}\n"})
    done = run(verb[0], "asked", *verb[1:])
    assert done.returncode == 1
    path = done.stdout[done.stdout.index("\ninitially\n") : done.stdout.index("  the worst case is ")]
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("  leasehold crash ")]
    words = shlex.split(command)
    point = words[5]
    assert re.search(rf"^ +\d+  CRASH .*{re.escape(point)}", path, re.MULTILINE)
    assert "\n  --- nothing more happens ---\n" in path
    assert path in run(*words[1:]).stdout


def test_a_message_that_is_lost_while_its_sender_is_down_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    state = Snapshot({"asker": "asking"}, {}, {})
    crashed = Step("crash", "asker", "crash:asker/asking#before-commit", {}, None, None, None, None, (), (), state)
    lost = Step("lose", "teller", "asked", {}, "asker", None, None, None, (), (), state)
    for brief in (True, False):
        terminal.path(console(), EvidencePath(state, (crashed, lost)), brief)
        assert capsys.readouterr().out.endswith(f"(lost)\n{terminal.LOST}\n")
        terminal.path(console(), EvidencePath(state, (lost,)), brief)
        assert capsys.readouterr().out.endswith("(lost)\n")


# check


@pytest.mark.long
def test_check_wants_every_point_met_or_explained(run: Run, tmp_path: Path) -> None:
    folder = write(tmp_path / "shy", SHY)
    done = run("check", "shy")
    assert done.returncode == 1
    assert "\n1 crash point not met, and not explained\n" in done.stdout
    point = "crash:asker/idle#before-acknowledge"
    assert done.stdout.endswith(
        f"\nnot as expected: 1 difference\n  {point}: never met, and not explained in crash.yaml\n"
        f"  remedy: change this, or explain it in crash.yaml: `unmet: {{{point}: why}}`\n"
        "\nshy survives crash=1, but not as crash.yaml says: 1 difference.\n"
    )
    (difference,) = as_json(run("check", "shy", "--json"))["crash"]["differences"]
    assert difference["what"] == "crash:asker/idle#before-acknowledge"
    (folder / "crash.yaml").write_text("unmet: {'crash:asker/idle#before-ack*': nobody answers before he asks}\n")
    explained = run("check", "shy")
    assert explained.returncode == 0, explained.stdout
    assert "\n1 crash point not met, as crash.yaml explains\n" in explained.stdout
    (folder / "crash.yaml").write_text(
        "unmet: {'crash:asker/idle#before-ack*': nobody answers, 'crash:asker/done#before-commit': out of date}\n"
    )
    stale = run("check", "shy")
    assert stale.returncode == 1
    assert "\n  crash:asker/done#before-commit: expected never met, found met, or the budget of" in stale.stdout


@pytest.mark.long
def test_what_is_not_met_in_another_setting_is_listed_only(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "shy", {**SHY, "system.yaml": SHY["system.yaml"] + "constants: {most: {type: int, value: 3}}\n"})
    assert run("check", "shy").returncode == 1
    other = run("check", "shy", "--set", "most=2")
    assert other.returncode == 0
    assert "\n1 crash point not met, and not explained: crash:asker/idle#before-acknowledge\n" in other.stdout


@pytest.mark.parametrize("verb", ["check", "crash"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "unmet: {'crash:asker/idel#before-acknowledge': no}\n",
            "shy/crash.yaml:1:10: error LH602: there is no crash point `crash:asker/idel#before-acknowledge`\n"
            "  did you mean `crash:asker/idle#before-acknowledge`?\n",
        ),
        ("unmett: {}\n", "did you mean `unmet`?"),
        ("unmet: [\n", "crash.yaml:"),
    ],
)
def test_a_bad_explanation_is_2(verb: str, text: str, said: str, run: Run, tmp_path: Path) -> None:
    write(tmp_path / "shy", {**SHY, "crash.yaml": text})
    done = run(verb, "shy")
    assert (done.returncode, done.stdout) == (2, "")
    assert "shy/crash.yaml:" in done.stderr
    assert said in done.stderr


@pytest.mark.long
def test_check_explores_the_faults_that_the_system_asks_for(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "asked", ASKED)
    done = run("check", "asked")
    assert done.returncode == 1
    assert "\nfaults crash=1 (system.yaml)\n" in done.stdout
    assert "\nonce breaks under crash=1, and under no weaker faults\n" in done.stdout
    left_out = run("check", "asked", "--no-crash")
    assert "faults" not in left_out.stdout


def test_check_is_content_with_what_comes_back(run: Run, light: Path) -> None:
    (light / "system.yaml").write_text(LIGHT["system.yaml"] + "faults: {check: crash=1}\n")
    done = run("check", "light")
    assert done.returncode == 0
    assert "\nstabilises: every fair run returns to a legal state, in at most 1 step and 0 messages" in done.stdout
    assert "\nlight survives crash=1: 1 property holds, and every fair run returns to a legal state.\n" in done.stdout


@pytest.mark.parametrize(
    ("words", "verbs"),
    [
        ("light --real", "`leasehold crash real`"),
        ("--real light", "`leasehold crash real`"),
        ("light --random 20", "`leasehold crash random`"),
        ("light --processes", "`leasehold crash processes`"),
        ("light --points", "`leasehold crash points`"),
        ("light --case dark", "`leasehold crash case`"),
        ("light --pairs", "`leasehold crash real`"),
        ("light --jobs 2", "`leasehold crash real`, `leasehold crash random`, `leasehold crash processes`"),
        ("real light --engine packed", "`leasehold crash explore`, `leasehold crash deep`, `leasehold crash case`"),
        (
            "processes light --out there",
            "`leasehold crash explore`, `leasehold crash deep`, `leasehold crash case`, "
            "`leasehold crash real`, `leasehold crash random`",
        ),
    ],
)
def test_an_option_of_another_verb_names_that_verb(words: str, verbs: str, run: Run, light: Path) -> None:
    done = run("crash", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    option = next(word for word in words.split() if word.startswith("--"))
    assert done.stderr.endswith(f"Error: No such option {option!r} here; see {verbs}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("reel lease", "there is no verb 'reel'; did you mean real?"),
        ("light other", "unexpected extra argument (other)"),
        ("light --nothing", "No such option '--nothing'."),
        ("", "Missing argument 'SYSTEM'"),
    ],
)
def test_a_word_that_is_no_verb_is_a_system(words: str, said: str, run: Run, light: Path) -> None:
    done = run("crash", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_exploring_is_the_default(run: Run, light: Path) -> None:
    named, bare = (as_json(run("crash", *words, "light", "--json")) for words in (("explore",), ()))
    measured = ("seconds", "peak_memory_bytes", "budgets")
    assert {k: v for k, v in named.items() if k not in measured} == {k: v for k, v in bare.items() if k not in measured}


@pytest.mark.parametrize("words", ["", "--quick", "--only kill", "--jobs 1", "--hours 1", "--json"])
def test_processes_are_of_a_system_that_brings_them(words: str, run: Run, light: Path) -> None:
    done = run("crash", "processes", "light", *words.split())
    assert done.returncode == 2
    assert "processes need policies, handlers and units that exist, and no plug-in has any for light" in done.stderr
