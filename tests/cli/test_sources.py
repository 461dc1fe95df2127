"""Sources of events that are none, or not as they were written: each verb names the source, and exits alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leasehold.cli.common import Exit
from leasehold.cli.conform import conform
from leasehold.cli.events import events
from leasehold.cli.explain import explain
from leasehold.cli.replay import replay
from leasehold.cli.verify import verify
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.trust import Trust
from leasehold.impl.server.event_source import SQLITE
from leasehold.spec import load, load_for_run
from leasehold.spec.language.load import shipped_folder
from tests.checker.conform.walks import walked
from tests.cli.test_conform import files

SYSTEM = ("--system", "two_phase_commit", "--set", "participants=2")
HEADER = '{"kind":"header","version":1,"actor":"coordinator","after":0}\n'
VERBS = {
    "verify": (verify, (), SYSTEM),
    "conform": (conform, (), SYSTEM),
    "explain": (explain, ("coordinator:1",), SYSTEM),
    "replay": (replay, (), SYSTEM),
    "events": (events, (), ()),
}


def told(verb: str, *words: object) -> Result:
    command, before, after = VERBS[verb]
    return CliRunner().invoke(command, [*before, *map(str, words), *after])


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("not_here.jsonl", None, "cannot be read: No such file or directory; did you mean nothere.jsonl?"),
        ("not_here.yaml", None, "there is nothing at "),
        ("site.db", SQLITE + b"\x10\x00", "is a SQLite store, which is named by its URL: sqlite:"),
        ("folder.jsonl/", None, "there is no socket of an actor in "),
    ],
)
def test_what_is_no_source_is_2_and_named(
    tmp_path: Path, verb: str, name: str, content: bytes | None, said: str
) -> None:
    (tmp_path / "nothere.jsonl").touch()
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    elif name.endswith("/"):
        path.mkdir()
    result = told(verb, path)
    assert (result.exit_code, said in result.output) == (Exit.BAD_SPEC, True), result.output
    assert str(path) in result.output


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "there is no line of events; `leasehold events --json` writes them"),
        ("hello\n", "the first line is no header of events"),
        (HEADER.replace('"version":1', '"version":9'), "the lines have version 9, and 1 is the only one"),
        (HEADER + "\n", "the line is empty"),
        (HEADER + "{}\n", "it is no event: "),
    ],
)
def test_what_is_no_log_is_named(tmp_path: Path, verb: str, content: str, said: str) -> None:
    path = tmp_path / "coordinator.jsonl"
    path.write_text(content)
    result = told(verb, path)
    assert (result.exit_code, said in result.output) == (Exit.VIOLATED, True), result.output
    assert f"{path}: " in result.output or "of coordinator: " in result.output


@pytest.mark.parametrize("verb", VERBS)
def test_a_log_without_its_end_names_its_source(tmp_path: Path, verb: str) -> None:
    path, trust = tmp_path / "coordinator.jsonl", tmp_path / "trust.yaml"
    path.write_text(HEADER)
    trust_file.save(trust, Trust())
    result = told(verb, path, "--trust", trust)
    assert result.exit_code == Exit.VIOLATED
    assert f"event 1 of {path}: the last line is missing" in result.output or (
        "event 1 of coordinator: the last line is missing" in result.output
    ), result.output


@pytest.mark.parametrize("verb", VERBS)
def test_lines_of_events_are_known_by_what_they_are_and_not_by_a_name(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "last_night.log"
    path.write_text(HEADER + "{}\n")
    assert "it is no event: " in told(verb, path).output


@pytest.mark.parametrize("verb", ["verify", "conform", "replay"])
def test_the_system_is_loaded_once_with_the_constants_of_its_actors(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own need not have a first state, nor are they asked."""
    folder = tmp_path / "mine"
    shutil.copytree(shipped_folder("two_phase_commit"), folder)
    words = (folder / "system.yaml").read_text().replace("value: 3, min", "value: 2, min")
    (folder / "system.yaml").write_text(f"{words}initially: len(participant) == 3\n")
    (folder / "expected.yaml").unlink()
    assert [warning.code for warning in load(folder).warnings] == ["LH511"]
    seen: list[object] = []
    monkeypatch.setattr(
        "leasehold.cli.sources.load_for_run", lambda *given: seen.append(given[1]) or load_for_run(*given)
    )
    command, before, _ = VERBS[verb]
    logs = files(tmp_path / "logs", walked("two_phase_commit", 1))
    result = CliRunner().invoke(command, [*before, *logs, "--system", str(folder)])
    assert "another specification" in result.output
    assert [constants["participants"] for constants in seen] == [3]
