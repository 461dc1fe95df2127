"""Renewing expected.yaml in place: comments, order and layout stay, and the difference is a value.

Numbers that differ are replaced, a run is added for a setting that has none, and explanations that no longer apply
are removed. Nothing is written that needs a reason: a violation and an untested transition go on to fail the check
until somebody explains them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from leasehold.checker.explore import Exploration
from leasehold.checker.explore.expectations import counts
from leasehold.spec.language.expectation import Expectation
from leasehold.spec.language.read.editing import Value, YamlEditor
from leasehold.spec.language.types import show


def renewed(text: str, runs: Sequence[tuple[Exploration, Expectation | None]]) -> str:
    """The text of expected.yaml after these complete explorations.

    Raises:
        CannotEdit: the text is laid out in a way that is not edited.
    """
    editor = YamlEditor(text)
    for exploration, expectation in runs:
        if expectation is not None:
            _renew_run(editor, exploration, expectation)
        else:
            if not editor.has(("runs",)):
                editor.add((), "runs", {})
            name, run = _new_run(exploration, editor.keys(("runs",)))
            editor.add(("runs",), name, run)
    return editor.text


def difference(old: str, new: str, name: str) -> list[str]:
    """Returns what differs, line by line, as `diff -u` writes it."""
    return [line.rstrip("\n") for line in difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, n=1)]


def _renew_run(editor: YamlEditor, exploration: Exploration, expectation: Expectation) -> None:
    numbers, run = counts(exploration), ("runs", expectation.name)
    for name, wanted in expectation.numbers.items():
        if numbers[name] != wanted:
            editor.replace((*run, name), numbers[name])
    now: Mapping[str, Iterable[str]] = {
        "violated": [p.name for p in exploration.properties if p.verdict == "violated"],
        "unvisited": exploration.unvisited_transitions,
        "vacuous": exploration.vacuous,
    }
    for section, names in now.items():
        known = editor.keys((*run, section))
        over = [name for name in known if "*" not in name and name not in names]
        if over and len(over) == len(known):
            editor.remove(run, section)
        else:
            for name in over:
                editor.remove((*run, section), name)


def _new_run(exploration: Exploration, names: Sequence[str]) -> tuple[str, Mapping[str, Value]]:
    system = exploration.system
    constants = {name: show(c.type, c.value) for name, c in system.constants.items()}
    usual = {name: show(system.constants[name].type, value) for name, value in system.defaults.items()}
    settings = {name: value for name, value in constants.items() if value != usual[name]}
    plain = "_".join(f"{name}_{value}" for name, value in settings.items()).lower()
    name = re.sub(r"[^a-z0-9_]+", "_", plain)[:60] or "default"
    while name in names:
        name += "_"
    numbers = {number: value for number, value in counts(exploration).items() if number != "initial"}
    return name, {**({"set": settings} if settings else {}), **numbers}
