"""`leasehold conform`: logs from files and folders, what is not whole, coverage and its page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leasehold.cli.conform import conform
from leasehold.impl.events.event import StepEvent, write
from leasehold.impl.events.lines import write_lines
from tests.checker.conform.alterations import rewritten
from tests.checker.conform.walks import Log, walked

SYSTEM = "two_phase_commit"


def files(folder: Path, log: Log) -> list[str]:
    """The logs of all actors as files; nobody has signed their end."""
    folder.mkdir(exist_ok=True)
    for name, events in log.items():
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(write_lines(name, map(write, events), 0.0)) + b"\n")
    return [str(file) for file in sorted(folder.glob("*.jsonl"))]


def conformed(*words: str, system: str = SYSTEM) -> Result:
    return CliRunner().invoke(conform, [*words, "--system", system])


def test_logs_that_conform(tmp_path: Path) -> None:
    result = conformed(*files(tmp_path, walked(SYSTEM, 1)))
    assert result.exit_code == 0
    assert "each step is one of the specification: 0 findings" in result.output
    assert re.search(r"coordinator: events 1 to \d+, \d+ steps judged, \d+ messages compared", result.output)


def test_what_the_logs_of_a_folder_exercise_adds_up(tmp_path: Path) -> None:
    def covered(*words: str) -> dict[str, int]:
        found = json.loads(conformed(*words, "--json").output)
        assert found["conforms"] is True
        return {name: part["covered"] for name, part in found["coverage"].items() if isinstance(part, dict)}

    one = covered(*files(tmp_path / "one", walked(SYSTEM, 1)))
    other = covered(*files(tmp_path / "other", walked(SYSTEM, 5)))
    both = covered(str(tmp_path))
    assert all(max(one[name], other[name]) <= both[name] <= one[name] + other[name] for name in both)
    assert both != one


def test_too_few_transitions(tmp_path: Path) -> None:
    words = files(tmp_path, walked(SYSTEM, 1))
    assert conformed(*words, "--fail-under", "1").exit_code == 0
    result = conformed(*words, "--fail-under", "99.5")
    assert result.exit_code == 1
    assert "of the transitions were taken, under 99.5 %" in result.output


def test_a_step_that_the_specification_does_not_allow(tmp_path: Path) -> None:
    log = walked(SYSTEM, 1)
    at = next(n for n, event in enumerate(log["coordinator"]) if isinstance(event, StepEvent) and event.step.sends)
    events = rewritten([*log["coordinator"][:at], *log["coordinator"][at + 1 :]])
    result = conformed(*files(tmp_path, {**log, "coordinator": events}))
    assert result.exit_code == 1
    assert "the logs do not conform" in result.output
    assert re.search(r"event \d+ of (coordinator|participant-\d)", result.output)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            lambda lines: [lines[0], lines[-1]],
            "event 1 of .*: it is missing, as the last line says that events go on to \\d",
        ),
        (lambda lines: lines[:-1], "the last line is missing"),
        (lambda lines: [lines[0], *lines[2:]], "event 2 of .*: those before it are missing, and no event says that"),
        (lambda lines: [*lines[:2], *lines[3:]], "event 2 of .*: it is missing: event 3 comes in its place"),
        (
            lambda lines: lines[:-2] + lines[-1:],
            "event \\d of .*: it is missing, as the last line says that events go on to \\d",
        ),
        (lambda lines: lines[1:], "the first line is no header"),
    ],
)
def test_a_log_that_is_not_whole(lines: object, words: str, tmp_path: Path) -> None:
    assert callable(lines)
    log = walked(SYSTEM, 1)
    (file,) = files(tmp_path, {"coordinator": log["coordinator"]})
    kept = lines(Path(file).read_bytes().splitlines())
    Path(file).write_bytes(b"\n".join(kept) + b"\n")
    result = conformed(file)
    assert result.exit_code == 1
    assert re.search(words, " ".join(result.output.split()))


def test_a_log_of_another_system(tmp_path: Path) -> None:
    result = conformed(*files(tmp_path, walked(SYSTEM, 1)), system="three_phase_commit")
    assert result.exit_code == 1
    assert "it was written under another specification" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [(("no.jsonl",), "no.jsonl cannot be read: No such file or directory"), ((), "Missing argument"), (("x:y",), "")],
)
def test_wrong_arguments(words: tuple[str, ...], said: str) -> None:
    result = conformed(*words)
    assert result.exit_code == 2
    assert said in result.output


def test_the_page_has_what_was_exercised(tmp_path: Path) -> None:
    page = tmp_path / "pages" / "coverage.html"
    result = conformed(*files(tmp_path / "logs", walked(SYSTEM, 1)), "--page", str(page))
    assert result.exit_code == 0
    text = page.read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    parts = {part["name"]: part for part in data["parts"]}
    taken = [t["taken"] for role in data["roles"] for t in role["transitions"]]
    assert parts["transitions"]["covered"] == sum(map(bool, taken)) > 0
    assert len(taken) == parts["transitions"]["of"]
    graph = data["product"]["graphs"][0]
    seen = sum(node["seen"] > 0 for node in graph["nodes"])
    assert seen == data["product"]["covered"] + len(data["product"]["beyond"])
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not a place
