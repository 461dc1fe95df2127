"""Renewing expected.yaml in place: comments, order and layout stay, and the difference is a value.

Numbers that differ are replaced, a run is added for a setting that has none, and explanations that no longer apply
are removed. Nothing is written that needs a reason: a violation and an untested transition go on to fail the check
until somebody explains them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from leasehold.checker.explore import Exploration
from leasehold.checker.explore.expectations import counts
from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.expectation import Expectation
from leasehold.spec.language.read.files import as_mapping
from leasehold.spec.language.read.source import YamlNode, read_text
from leasehold.spec.language.types import show


class CannotRenew(Exception):
    """The file has a layout that is not edited: the user has to. The message says what."""


@dataclass
class _Edits:
    """Edits of the lines of a file, which are counted from 1 in its old text."""

    lines: list[str]
    replaced: list[tuple[int, int, str, str]] = field(default_factory=list)  # line, column, old, new
    dropped: set[int] = field(default_factory=set)
    added: dict[int, list[str]] = field(default_factory=dict)  # after which line

    def text(self) -> str:
        """The lines after all of it."""
        lines = list(self.lines)
        for number, column, old, new in sorted(self.replaced, reverse=True):
            line = lines[number - 1]
            lines[number - 1] = line[: column - 1] + new + line[column - 1 + len(old) :]
        kept: list[str] = self.added.get(0, [])
        for number, line in enumerate(lines, 1):
            kept = [*kept, *([] if number in self.dropped else [line]), *self.added.get(number, [])]
        return "".join(f"{line}\n" for line in kept)


def renewed(text: str, runs: Sequence[tuple[Exploration, Expectation | None]]) -> str:
    """The text of expected.yaml after these complete explorations.

    Raises:
        CannotRenew: the text is laid out in a way that is not edited.
    """
    edits = _Edits(text.splitlines())
    tree = read_text(text, "expected.yaml", Sink()) if text.strip() else None
    listed = as_mapping(as_mapping(tree).get("runs"))
    fresh: list[str] = []
    indent = next((place.column - 1 for _, place, _ in listed.pairs()), 2)
    names = {name for name, _, _ in listed.pairs()}
    for exploration, expectation in runs:
        if expectation is not None:
            _renew_run(edits, as_mapping(listed.get(expectation.name)), exploration, expectation)
        else:
            fresh += _new_run(exploration, indent, names)
    if fresh and listed.entries:
        last = max(place.line for _, place, _ in listed.pairs())
        edits.added[_last_line(listed.entries[-1][1].value, last)] = fresh
    elif fresh:
        edits.added[len(edits.lines)] = ["runs:", *fresh]
    result = edits.text()
    sink = Sink()
    if read_text(result, "expected.yaml", sink) is None or sink.errors:
        raise CannotRenew("its layout keeps it from being renewed in place; write block style, a key on each line")
    return result


def difference(old: str, new: str, name: str) -> list[str]:
    """Returns what differs, line by line, as `diff -u` writes it."""
    return [line.rstrip("\n") for line in difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, n=1)]


def _renew_run(edits: _Edits, run: YamlNode, exploration: Exploration, expectation: Expectation) -> None:
    numbers = counts(exploration)
    for name, wanted in expectation.numbers.items():
        value = run.get(name)
        if value is not None and numbers[name] != wanted:
            edits.replaced.append((value.place.line, value.place.column, value.text, str(numbers[name])))
    now: Mapping[str, Iterable[str]] = {
        "violated": [p.name for p in exploration.properties if p.verdict == "violated"],
        "unvisited": exploration.unvisited_transitions,
        "vacuous": exploration.vacuous,
    }
    for section, names in now.items():
        reasons = as_mapping(run.get(section))
        over = [name for name, _, _ in reasons.pairs() if "*" not in name and name not in names]
        if over:
            _drop(edits, run, section, over)


def _drop(edits: _Edits, run: YamlNode, section: str, over: Sequence[str]) -> None:
    """Takes out explanations, and their section with the last of them."""
    reasons = as_mapping(run.get(section))
    whole = len(over) == len(reasons.entries)
    entries = [(section, run.key_place(section), reasons)] if whole else [e for e in reasons.pairs() if e[0] in over]
    for name, key, value in entries:
        if not re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*:", edits.lines[key.line - 1]):
            raise CannotRenew(f"take {name} out of {section} by hand, or write it on a line of its own")
        edits.dropped.update(range(key.line, _last_line(value, key.line) + 1))


def _last_line(node: YamlNode, first: int) -> int:
    """The last line on which a part of a value stands, or its key on line `first`."""
    inner = [_last_line(value, key.line) for _, key, value in node.pairs()] + [_last_line(n, first) for n in node]
    return max([first, node.place.line if node.text else first, *inner, *(line for _, line, _ in node.spans)])


def _new_run(exploration: Exploration, indent: int, names: set[str]) -> list[str]:
    system = exploration.system
    constants = {name: show(c.type, c.value) for name, c in system.constants.items()}
    usual = {name: show(system.constants[name].type, value) for name, value in system.defaults.items()}
    settings = {name: value for name, value in constants.items() if value != usual[name]}
    plain = "_".join(f"{name}_{value}" for name, value in settings.items()).lower()
    name = re.sub(r"[^a-z0-9_]+", "_", plain)[:60] or "default"
    while name in names:
        name += "_"
    names.add(name)
    lead = " " * indent
    set_ = f"{lead}{lead}set: {{{', '.join(f'{n}: {v}' for n, v in settings.items())}}}"
    return [
        f"{lead}{name}:",
        *([set_] if settings else []),
        *(f"{lead}{lead}{number}: {value}" for number, value in counts(exploration).items() if number != "initial"),
    ]
