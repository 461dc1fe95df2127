"""Seeded mistakes of the lease: what the paper (section 5.1) and today's leasing systems got wrong, one file each.

Each is a patch of the lease's text, or a deviation from what every machine does, or both; the file says in which
setting and under which faults it must be found, by what, and how long the shortest counterexample is. docs/mutants.md
lists them. (Mutants that are made by rule are another thing: checker/mutation/operators.py.)
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leasehold.faults.budget import Budget, BudgetError
from leasehold.spec import SpecError, System, load, shipped_folder
from leasehold.spec.language.declare.declare import text_of
from leasehold.spec.language.diagnostics import Diagnostic, Sink
from leasehold.spec.language.read.shape import ListShape, RecordShape, ShapeKey, record_of
from leasehold.spec.language.read.shape_check import check_shape
from leasehold.spec.language.read.source import YamlNode, read_file
from tests.mutants.deviation import Deviation

FOLDER = Path(__file__).parent

_PATCH = record_of(
    "a patch",
    {
        "file": ("text", "A file of the lease's specification, such as `roles/authority.yaml`.", "required"),
        "old": ("text", "What stands there exactly once.", "required"),
        "new": ("text", "What stands there instead.", "required"),
    },
)
_MISTAKE = record_of(
    "a seeded mistake",
    {
        "doc": ("text", "A description, in a sentence.", "required"),
        "source": ("text", "Who made it: the paper, or a leasing system of today.", "required"),
        "setting": ({"name": "text"}, "Values of constants, as small as finds it.", "required"),
        "faults": ("text", "The weakest budget of faults that finds it, or `none`.", "required"),
        "found_by": ("names", "The properties that it violates, or `convergence`.", "required"),
        "steps": ("number", "The length of the shortest counterexample.", "required"),
        "semantics": (
            {"name": {"one of": ["text", ["text"]]}},
            "A deviation from what every machine does (deviations.py), with its arguments.",
        ),
    },
)
_PATCHES = {"patch": ShapeKey(ListShape(_PATCH), "Changes of the text.")}
SHAPE = RecordShape(_MISTAKE.title, {**_MISTAKE.keys, **_PATCHES})


class MutantError(Exception):
    """A patch does not fit the specification any more."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of text: `old` stands in the file exactly once."""

    file: str
    old: str
    new: str

    def apply(self, folder: Path) -> None:
        """Changes the file in a copy of the specification.

        Raises:
            MutantError: the file is not there, or has not the text exactly once.
        """
        path = folder / self.file
        if not path.is_file():
            raise MutantError(f"the specification has no file {self.file}")
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise MutantError(f"{self.file} has this {text.count(self.old)} times, not once:\n{self.old}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A seeded mistake.

    Attributes:
        name: its file's name.
        doc: the mistake in a sentence. source: who made it.
        setting: of the constants, as small as finds it. budget: the weakest that finds it.
        found_by: the properties that it violates, or CONVERGENCE.
        steps: the length of the shortest counterexample (of the first of `found_by`).
        patches: what is changed in the text. deviation: what the machines do wrong.
    """

    name: str
    doc: str
    source: str
    setting: Mapping[str, str]
    budget: Budget
    found_by: tuple[str, ...]
    steps: int
    patches: tuple[Patch, ...]
    deviation: Deviation | None

    def write(self, folder: Path) -> None:
        """Makes the specification with the mistake, without expectations, in a folder that is not there yet.

        Raises:
            MutantError: a patch does not fit.
        """
        shutil.copytree(shipped_folder("lease"), folder)
        (folder / "expected.yaml").unlink()
        for patch in self.patches:
            patch.apply(folder)

    def load(self) -> System:
        """The system with the mistake in the text, in its setting; the deviation is the explorer's.

        Raises:
            MutantError: a patch does not fit.
            SpecError: what comes of it is no specification.
        """
        with tempfile.TemporaryDirectory() as name:
            self.write(folder := Path(name) / "lease")
            return load(folder, self.setting)

    def original(self) -> System:
        """The system without the mistake, in the same setting."""
        return load("lease", self.setting)


def mutants() -> tuple[Mutant, ...]:
    """All seeded mistakes, by name.

    Raises:
        SpecError: a file is wrong.
    """
    return tuple(read(path) for path in sorted(FOLDER.glob("*.yaml")))


def read(path: Path) -> Mutant:
    """Reads one seeded mistake.

    Raises:
        SpecError: the file is wrong: it carries every finding with its place.
    """
    sink = Sink()
    node = read_file(path, path.name, sink)
    if node is None or not check_shape(node, SHAPE, sink):
        raise SpecError(sink.found)
    found_by = _several(node.get("found_by"))
    semantics = [(name, place, value) for name, place, value in node.pairs_of("semantics")]
    if not found_by:
        sink.add(Diagnostic("LH202", node.key_place("found_by"), "nothing is named that finds it"))
    changes = list(node.get("patch") or ())
    if not changes and not semantics:
        sink.add(Diagnostic("LH202", node.place, "nothing is changed", remedy="give it a `patch`, or `semantics`"))
    for name, place, _ in semantics[1:]:
        sink.add(Diagnostic("LH201", place, f"`{name}` is a second deviation", remedy="make it another file"))
    budget = Budget()
    try:
        budget = Budget.parse(text_of(node, "faults"))
    except BudgetError as error:
        sink.add(
            Diagnostic("LH203", node.key_place("faults"), f"`{text_of(node, 'faults')[:40]}` is no budget: {error}")
        )
    sink.raise_errors()
    deviation = Deviation(semantics[0][0], _several(semantics[0][2])) if semantics else None
    patches = tuple(Patch(text_of(p, "file"), text_of(p, "old"), text_of(p, "new")) for p in changes)
    setting = {name: value.text for name, _, value in node.pairs_of("setting")}
    doc, source = (" ".join(text_of(node, key).split()) for key in ("doc", "source"))
    return Mutant(path.stem, doc, source, setting, budget, found_by, int(text_of(node, "steps")), patches, deviation)


def _several(node: YamlNode | None) -> tuple[str, ...]:
    """A list of texts, or one."""
    if node is None or (node.kind == "text" and not node.text):
        return ()
    return tuple(item.text for item in node) if node.kind == "list" else (node.text,)
