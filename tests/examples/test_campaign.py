"""Each example lives through `kill -9` of its members, and a bug in the specification that they run is caught."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.examples.campaign import EXAMPLES, PLAYS, play

LOWER = 'when: "above(self, msg.candidate)", '
BUGS = {
    "mutex": (
        "roles/store.yaml",
        {", when: msg.token >= token": "", '\n    ignore: {write: "a newer lock was granted, and used"}': ""},
        ("goes back", "used before it asked", "after it", "after that by"),
    ),
    "raft": (
        "roles/node.yaml",
        {"count(m[k] >= m[n] for k in node) * 2 > nodes": "count(m[k] >= m[n] for k in node) > 0"},
        ("are committed", "had committed"),
    ),
    "register": (
        "roles/replica.yaml",
        {"set: {round: msg.round, writer: msg.writer, value: msg.value, ": "set: {"},
        ("no order of the",),
    ),
    "ring": (
        "roles/node.yaml",
        {LOWER + "also: [stand]": LOWER + "set: {best: msg.candidate}, also: [pass_on]"},
        ("leads, though", "follows"),
    ),
}


PLAYED = pytest.mark.parametrize(
    "example",
    [pytest.param(name, marks=pytest.mark.long if name == "ring" else pytest.mark.slow) for name in sorted(PLAYS)],
)


@PLAYED
def test_an_example_lives_through_kills(example: str) -> None:
    result = play(example, seed=1)
    assert result.violations == []
    assert all(result.kills.values())
    assert all(result.done.values())


@PLAYED
def test_a_seeded_bug_is_caught(example: str, tmp_path: Path) -> None:
    """A store without fencing, a leader that needs no majority, a replica that keeps nothing, a node that passes on a
    lower candidate than itself."""
    file, changes, words = BUGS[example]
    wrong = shutil.copytree(EXAMPLES / example, tmp_path / example)
    text = (wrong / file).read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (wrong / file).write_text(text)
    for seed in range(5):
        violations = play(example, seed, wrong).violations
        if violations:
            break
    assert any(word in violation for violation in violations for word in words), violations
