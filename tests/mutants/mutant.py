"""Seeded mistakes of the lease (planted/lease.yaml): what the paper (section 5.1) and today's systems got wrong.

Each is a change of the lease's text, or a deviation from what every machine does, or both; the table says in which
setting and under which faults it must be found, by what, and how long the shortest counterexample is. docs/mutants.md
lists them. (Mutants that are made by rule are another thing: checker/mutation/operators.py.)
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leasehold.faults.model.budget import Budget
from leasehold.spec import System, load, shipped_folder
from tests.mutants.deviation import Deviation
from tests.planted.edit import Edit, edited, edits_of
from tests.planted.table import Mistake, rows

LEASE = "spec/systems/lease/"  # where its files are


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant(Mistake):
    """A seeded mistake of the lease.

    Attributes:
        setting: of the constants, as small as finds it. budget: the weakest that finds it.
        steps: the length of the shortest counterexample (of the first of `properties`).
        deviation: what the machines do wrong.
    """

    setting: Mapping[str, str]
    budget: Budget
    steps: int
    deviation: Deviation | None

    @property
    def properties(self) -> tuple[str, ...]:
        """The properties that it violates, or CONVERGENCE."""
        return self.found_by["explore"]

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the specification that are changed."""
        return tuple(dict.fromkeys(edit.file.removeprefix(LEASE) for edit in self.edits))

    def write(self, folder: Path) -> None:
        """Makes the specification with the mistake, without expectations, in a folder that is not there yet.

        Raises:
            EditError: an edit does not fit.
        """
        shutil.copytree(shipped_folder("lease"), folder)
        (folder / "expected.yaml").unlink()
        own = [Edit(edit.file.removeprefix(LEASE), edit.old, edit.new) for edit in self.edits]
        for file, text in edited(folder, own).items():
            (folder / file).write_text(text, encoding="utf-8")

    def load(self) -> System:
        """The system with the mistake in the text, in its setting; the deviation is the explorer's.

        Raises:
            EditError: an edit does not fit.
            SpecError: what comes of it is no specification.
        """
        with tempfile.TemporaryDirectory() as name:
            self.write(folder := Path(name) / "lease")
            return load(folder, self.setting)

    def original(self) -> System:
        """The system without the mistake, in the same setting."""
        return load("lease", self.setting)


def mutants() -> tuple[Mutant, ...]:
    """All seeded mistakes, by name."""
    return tuple(
        Mutant(
            name=name,
            edits=edits_of(row.pop("edits", ())),
            found_by={check: tuple(names) for check, names in row.pop("found_by").items()},
            setting={constant: str(value).lower() for constant, value in row.pop("setting").items()},
            budget=Budget.parse(row.pop("faults")),
            deviation=_deviation(row.pop("semantics", {})),
            **row,
        )
        for name, row in rows("lease.yaml").items()
    )


def _deviation(semantics: Mapping[str, list[str]]) -> Deviation | None:
    """The deviation that a row names with its arguments."""
    found = [Deviation(name, tuple(arguments)) for name, arguments in semantics.items()]
    assert len(found) <= 1, "make it another mistake"
    return found[0] if found else None
