"""The digest of a specification: another one for every other meaning, and for no comment, place or explanation."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.spec.language.load import load
from tests.systems import files_of, write

SYSTEM = files_of("spec/language/systems/digested")


def digest(folder: Path, changes: dict[str, tuple[str, str]]) -> str:
    files = dict(SYSTEM)
    for name, (old, new) in changes.items():
        assert old in files.get(name, ""), (name, old)
        files[name] = files.get(name, "").replace(old, new, 1) if old else files.get(name, "") + new
    return load(write(folder, files)).digest


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("system.yaml", "system: post", "system: mail"),
        ("system.yaml", "value: 3", "value: 4"),
        ("system.yaml", "kind: mailbox", "kind: fifo"),
        ("system.yaml", "come: {to: clerk}", "come: {to: clerk, fair: true}"),
        ("system.yaml", "", "initially: reader.seen == 0\n"),
        ("more.yaml", "most > 1", "most > 2"),
        ("messages.yaml", "max: 9", "max: 8"),
        ("invariants.yaml", "<= most", "< most"),
        ("invariants.yaml", "few:", "many:"),
        ("invariants.yaml", "state == done", "state != done"),
        ("roles/clerk.yaml", "rain: {to: idle}", "rain: {to: busy}"),
        ("roles/clerk.yaml", "one is inside", "one is in bed"),
        ("roles/clerk.yaml", "pages: 2", "pages: 1"),
        ("roles/clerk.yaml", "rain: {to: idle}", "rain: {to: idle, also: [send]}"),
        ("roles/reader.yaml", "set: {seen: msg.pages}", "set: {seen: most}"),
        ("roles/reader.yaml", "min: 0, max: 9", "min: 0, max: 9, explore: [0, 2]"),
    ],
)
def test_another_system_has_another_digest(file: str, old: str, new: str, tmp_path: Path) -> None:
    assert digest(tmp_path / "one", {}) != digest(tmp_path / "other", {file: (old, new)})


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("system.yaml", "system: post", "# The post.\nsystem:   post"),
        ("system.yaml", "system: post\n", "system: post\ndoc: Letters come and go.\n"),
        ("system.yaml", "", "faults: {check: crash=1}\n"),
        ("system.yaml", "{type: int, value: 3}", "{type: int, value: 3, doc: How many.}"),
        ("more.yaml", "{rain: {to: clerk, when: most > 1}}", "\n  rain: {to: clerk,\n    'when': most > 1}"),
        ("invariants.yaml", "{always:", "{doc: Few are read., always:"),
        ("roles/clerk.yaml", "role: clerk\n", "role: clerk\ndoc: It writes.\n"),
        ("roles/clerk.yaml", "{to: busy}", "{to: busy, doc: It begins.}"),
        ("expected.yaml", "", "runs: {one: {distinct: 1}}\n"),
        ("lemmas.yaml", "", "lemmas: {few_are_seen: {always: reader.seen < 9}}\n"),
    ],
)
def test_words_for_people_and_what_is_beside_it_change_no_digest(file: str, old: str, new: str, tmp_path: Path) -> None:
    assert digest(tmp_path / "one", {}) == digest(tmp_path / "other", {file: (old, new)})


def test_settings_change_no_digest(tmp_path: Path) -> None:
    """Actors with other constants agree on the text; their constants are compared by themselves."""
    folder = write(tmp_path / "one", SYSTEM)
    assert load(folder).digest == load(folder, {"most": 5}).digest
