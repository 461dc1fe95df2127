"""The table of planted mistakes: a row says what is wrong, where, and which check has to find it.

| file | mistakes of | made by | found by |
|---|---|---|---|
| `running.yaml` | the running system | edits in the process, or a copy | `campaigns/seeded.py`, or a test |
| `prover.yaml` | the prover, that make false proofs | edits in the process | `campaigns/prover.py --errors` |
| `forms.yaml` | the forms of states, in C | a copy that is compiled | `checker/explore/test_canonical.py` |
| `lease.yaml` | the lease's specification | edits of its text, deviations of its machines | `mutants/test_mutants.py` |
| `logs.yaml` | who writes or keeps a log | another value of a field | `checker/conform/test_alterations.py` |
| `../paper/breaks.yaml` | who keeps no rule of the paper | edits in a copy | tests of the rule: `campaigns/paper.py` |
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.planted.edit import Edit, edits_of, in_process

HERE = Path(__file__).parent
TESTS = "tests"  # in place of a check: tests find the mistake, as pytest names them


class UnknownMistake(ValueError):
    """A name that no mistake has. The message says which is near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake.

    Attributes:
        name: its name.
        class_: its kind, among those of its file.
        doc: the mistake in a sentence.
        source: who made it.
        edits: where it is made.
        found_by: what has to find it: by the campaign or system in which it is tried, the checks that must fail there,
            none where it does no harm in so small a system; or, under `tests`, tests.
        point: the point of a crash at which cases find it, where few others do.
    """

    name: str
    edits: tuple[Edit, ...]
    class_: str = ""
    doc: str = ""
    source: str = ""
    found_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    point: str = ""

    def planted(self) -> AbstractContextManager[None]:
        """Plants the mistake in all of this process, while it lasts."""
        return in_process(self.edits)

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, or campaigns, in which it is tried."""
        return tuple(name for name in self.found_by if name != TESTS)

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that find it, where no campaign has the like: a liar, a hanging policy."""
        return self.found_by.get(TESTS, ())


def rows(file: str) -> Any:
    """The rows of a file of this folder."""
    return yaml.safe_load((HERE / file).read_text(encoding="utf-8"))


@cache
def mistakes(file: str) -> dict[str, Mistake]:
    """The mistakes of a file of this folder, by name."""
    return {
        name: Mistake(
            name=name,
            class_=row.pop("class", ""),
            found_by={check: tuple(names) for check, names in row.pop("found_by", {}).items()},
            edits=edits_of(row.pop("edits")),
            **row,
        )
        for name, row in rows(file).items()
    }


def named(name: str, file: str = "running.yaml") -> Mistake:
    """The mistake of a name.

    Raises:
        UnknownMistake: there is none.
    """
    known = mistakes(file)
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1)
    raise UnknownMistake(f"no mistake is named {name[:80]!r}" + (f"; did you mean {near[0]}?" if near else ""))


def bugs() -> tuple[Mistake, ...]:
    """The mistakes of the running system, class by class."""
    return tuple(mistakes("running.yaml").values())
