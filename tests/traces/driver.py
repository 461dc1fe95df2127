"""Conversations as text files: a command, dashes, and what it prints.

    deliver ticket number=1 units=2 end=10
    ----
    nascent -> ticketing on broker/nascent#ticket
    start policy.allocate

    # a comment

An empty line ends what a command prints; one within it is written as `.`. `pytest tests/traces --rewrite` writes what
the commands print now; read the difference before you keep it. The form is that of the test data of etcd's raft.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
DASHES = "----"


@dataclass(frozen=True)
class Command:
    """One command: its name, its words, and its values by name (`units=2`), read as YAML."""

    line: str
    name: str
    words: tuple[str, ...]
    values: dict[str, Any]

    @classmethod
    def parse(cls, line: str) -> Command:
        name, *rest = shlex.split(line)
        given = [word.partition("=") for word in rest]
        values = {key: yaml.safe_load(value) for key, equals, value in given if equals}
        return cls(line, name, tuple(word for word, equals, _ in given if not equals), values)


Run = Callable[[Command], list[str]]


def play(path: Path, run: Run) -> str:
    """The file as it would be written now: every command with what it prints."""
    written: list[str] = []
    lines = iter(path.read_text().splitlines())
    for line in lines:
        written.append(line)
        if not line or line.startswith("#"):
            continue
        for passed in lines:  # what it printed once
            if not passed:
                break
        printed = [part or "." for text in run(Command.parse(line)) for part in text.splitlines()]
        written += [DASHES, *printed, ""]
    return "\n".join(written).rstrip() + "\n"


def check(path: Path, run: Run, rewrite: bool) -> None:
    """Plays a file; it prints what stands there, or is written anew."""
    found = play(path, run)
    if rewrite:
        path.write_text(found)
    assert found.splitlines() == path.read_text().splitlines()


def files(folder: str) -> list[Path]:
    return sorted((HERE / folder).glob("*.txt"))
