"""Candidate lemmas of small systems are, claim for claim, those that were last read by somebody.

candidates.txt has the candidates of each system at most two attributes deep, sorted; that they hold where they are
explored, and prove something, are other tests. After a change that is meant, `python
tests/checker/prove/test_candidates.py` rewrites the file: read the difference before you keep it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from leasehold.checker.prove.discover.candidates import candidates, explored_states
from leasehold.checker.prove.encode.lemma import CandidateLemma
from leasehold.spec import System
from tests.systems import CONSTRUCTS, TRUTH, files_of, load, written

LAMP = files_of("checker/export/systems/lamp")

KEPT = Path(__file__).with_name("candidates.txt")
LEVELS = (1, 2)
# Data of all types, maps, several machines, messages with fields, shared variables and the clock.
SYSTEMS = (
    *(CONSTRUCTS / name for name in ("begins", "captures", "circle", "maps", "pool")),
    *(TRUTH / name for name in ("two_phase", "tcommit", "peterson", "lock", "chandy_misra", "token_ring", "maekawa")),
)
NAMES = (*(folder.name for folder in SYSTEMS), "two_phase_commit", "lamp")


@cache
def small(name: str) -> System:
    """A system with small constants, without lemmas."""
    if name == "lamp":
        with TemporaryDirectory() as scratch:
            return written(Path(scratch), LAMP)
    of = next((folder for folder in SYSTEMS if folder.name == name), name)
    return replace(load(of, load(of).faults.settings), lemmas={})


@cache
def found(name: str, level: int) -> tuple[CandidateLemma, ...]:
    return tuple(candidates(small(name), explored_states(small(name), [""]), level))


def lines(name: str, level: int) -> list[str]:
    """Returns the candidates of a system, as text."""
    return sorted(f"{name} {level}: {one.when or 'always'} => {one.always}" for one in found(name, level))


@pytest.mark.parametrize("name", NAMES)
def test_candidates_are_as_they_were(name: str) -> None:
    """At the first level, and those that the second one has besides."""
    kept = [line for line in KEPT.read_text(encoding="utf-8").splitlines() if line.split()[0] == name]
    assert [line for level in LEVELS for line in more(name, level)] == kept


def more(name: str, level: int) -> list[str]:
    """Returns the candidates of a level that no lower one has."""
    known = {line.partition(": ")[2] for below in LEVELS if below < level for line in lines(name, below)}
    return [line for line in lines(name, level) if line.partition(": ")[2] not in known]


@pytest.mark.parametrize("name", NAMES)
def test_each_candidate_has_a_name_of_its_own_and_is_read_back(name: str) -> None:
    """Names differ from those of properties, too; a lemma of lemmas.yaml is what it was."""
    system, some = small(name), found(name, LEVELS[-1])
    names = [one.name for one in some]
    assert len({*names, *system.properties}) == len(names) + len(system.properties)
    assert {*names} >= {one.name for one in found(name, LEVELS[0])}
    for one in some:
        read = one.of(system)
        assert (read.name, read.kind, read.when is None) == (one.name, "always", not one.when)


if __name__ == "__main__":
    KEPT.write_text("\n".join(line for name in NAMES for level in LEVELS for line in more(name, level)) + "\n")
