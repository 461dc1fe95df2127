"""Names and values of a log that a terminal would obey are escaped by each verb that reads logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click import Command
from click.testing import CliRunner

from leasehold.cli.conform import conform
from leasehold.cli.events import events
from leasehold.cli.explain import explain
from leasehold.cli.replay import replay
from leasehold.cli.verify import verify
from leasehold.impl.events.event import read, write
from leasehold.impl.events.lines import write_lines
from tests.checker.conform.alterations import rewritten
from tests.cli.test_verify import SETTINGS, _files

LEASE = "service_manager:2"
# It clears the screen, begins a line, turns what follows, and clears the screen with a character of C1.
HOSTILE = "\x1b[2J\n0 violations\u202e\x9b2J"
ESCAPED = r"\x1b[2J\n0 violations\u202e\x9b2J"
# Words that no contract is about, and so are shown as they came: by the key of an event.
FREE = ("reason", "ticket_reason", "lease_reason", "words", "type", "transition", "why")


def _hostile(value: Any, name: str) -> Any:
    """The same JSON with hostile strings for the lease, or for what is free."""
    if isinstance(value, dict):
        return {
            HOSTILE if key == name else key: HOSTILE if not name and key in FREE else _hostile(one, name)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [_hostile(one, name) for one in value]
    return HOSTILE if name and value == name else value


@pytest.fixture(scope="module", params=[LEASE, ""], ids=["lease", "fields"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Logs of a run with a violation, whose lease, or whose words, are hostile."""
    found = _files(tmp_path_factory.mktemp("events"), 8, "assigned_units_not_saved")
    for file in found:
        bodies = [json.loads(line) for line in file.read_bytes().splitlines()[1:-1]]
        chain = rewritten([read(json.dumps(_hostile(body, request.param)).encode()) for body in bodies])
        file.write_bytes(b"\n".join(write_lines(file.stem, map(write, chain), 0.0)))
    return [str(file) for file in found]


@pytest.mark.parametrize("command", [verify, conform, events, explain, replay], ids=lambda command: command.name)
def test_what_a_terminal_would_obey_is_escaped(command: Command, files: list[str], request: Any) -> None:
    of_lease = "lease" in request.node.callspec.id
    first = [HOSTILE if of_lease else LEASE] if command is explain else []
    settings = [] if command is events else [word for setting in SETTINGS for word in ("--set", setting)]
    sources = files[2:] if command is events else files
    result = CliRunner().invoke(command, [*first, *sources, *settings])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert all(line.isprintable() for line in result.output.split("\n"))
    assert "\n0 violations" not in result.output
    assert ESCAPED in result.output


@pytest.mark.parametrize("words", [(f"{HOSTILE}9",), ("service_manager:9",)], ids=["asked", "known"])
def test_names_in_errors_are_escaped(words: tuple[str, ...], files: list[str]) -> None:
    result = CliRunner().invoke(explain, [*words, *files])
    assert (result.exit_code, "no event tells of" in result.output) == (2, True)
    assert all(line.isprintable() for line in result.output.split("\n"))


FILES = {
    "verify": (verify, (), ("--draw", "drawn", "--junit", "found.xml")),
    "explain": (explain, ("LEASE",), ("--draw", "lease.svg")),
    "conform": (conform, (), ("--page", "page.html")),
}


@pytest.mark.parametrize("verb", FILES)
def test_files_have_them_escaped_as_a_terminal_has(
    verb: str, files: list[str], request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser obeys marks of direction, and who prints a file obeys the rest."""
    of_lease = "lease" in request.node.callspec.id
    command, first, options = FILES[verb]
    named = [(HOSTILE if of_lease else LEASE) if word == "LEASE" else word for word in first]
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(command, [*named, *files, *settings, *options])
    written = {path: path.read_text() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert written
    for path, text in written.items():
        odd = {c for line in text.split("\n") for c in line if not c.isprintable()}
        assert not odd, f"{path.name} has {sorted(odd)!r}"
    if of_lease:
        assert any(ESCAPED in text or ESCAPED.replace("\\", "\\\\") in text for text in written.values())
