"""A result that is kept between runs is taken where all that it depends on is as it was, and nowhere else.

Each kind of kept thing (results of mutants, proofs, checkpoints of searches, databases of verifications) is kept, and
one thing that it depends on is changed: the text of a file, a constant, a budget, a version, a source of the checker.
"""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import z3

from leasehold.checker.explore import Checkpointing, Limits, explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.packed import CheckpointError, checkpoint, library
from leasehold.checker.host import mutant_results
from leasehold.checker.host.cache import VARIABLE
from leasehold.checker.host.mutant_results import keep, kept
from leasehold.checker.prove import Setting, store, stored
from leasehold.checker.prove.decide import proof_store
from leasehold.checker.verify.database import DatabaseError, VerifyDatabase
from leasehold.faults.model import Budget
from leasehold.spec.language.load import load
from tests.checker.prove.test_proof_store import all_proved
from tests.systems import edited, files_of, write

TREE = Path(__file__).parents[3]
COPIED = ("checker/explore", "checker/crash", "checker/mutation", "checker/prove", "faults", "spec/language")
SYSTEMS = files_of("checker/host/systems/chained")  # one refines another, and includes files beside its folder


class Inputs(NamedTuple):
    """All that a kept thing may depend on.

    Attributes:
        files: of the system, of the one that it refines, and of those that it includes.
        settings: its constants.
        budget: of faults.
        patches: by module and name, what stands for a part of the checker.
        source: a file of the checker that has another text.
    """

    files: Mapping[str, str] = SYSTEMS
    settings: Mapping[str, str | int | bool] = {}
    budget: str = "crash=1,power_cut=1"
    patches: tuple[tuple[Any, str, Any], ...] = ()
    source: str = ""


class Place:
    """A folder in which things are kept, and the system as it is now."""

    def __init__(self, folder: Path, inputs: Inputs) -> None:
        self.kept, self.inputs = folder / "kept", inputs
        shutil.rmtree(folder / "systems", ignore_errors=True)
        self.name = write(folder / "systems", inputs.files) / "chained"
        self.system = load(self.name, inputs.settings)

    def search(self, resume: bool) -> None:
        limits = Limits(depth=1, keeping=Checkpointing(self.kept / "left", resume))
        budget = Budget.parse(self.inputs.budget)
        explore(self.system, limits, budget=budget, engine="packed")

    def open_database(self) -> None:
        VerifyDatabase(self.system, f"sqlite:{self.kept / 'verify.db'}").close()


class Keeper(NamedTuple):
    """Keeps one kind of thing, and takes it; what it cannot take is None, or an error."""

    keep: Callable[[Place], object]
    take: Callable[[Place], object]


def opened(place: Place) -> bool:
    place.open_database()
    return True


def resumed(place: Place) -> bool:
    place.search(resume=True)
    return True


KEEPERS = {
    "mutants": Keeper(
        lambda place: keep(place.name, place.system, {"drop_transition lift/low#rise": "killed"}),
        lambda place: kept(place.name, place.system),
    ),
    "proof": Keeper(lambda place: store(all_proved(place.system), Setting()), lambda place: stored(place.system)),
    "checkpoint": Keeper(lambda place: place.search(resume=False), resumed),
    "database": Keeper(Place.open_database, opened),
}


def is_taken(kind: str, place: Place) -> bool:
    with suppress(CheckpointError, DatabaseError):
        return KEEPERS[kind].take(place) is not None
    return False


# What is changed, and the kinds of things that depend on it


def text(file: str, old: str, new: str) -> Inputs:
    """One file with another text in one place."""
    return Inputs(files={**SYSTEMS, **edited({file: SYSTEMS[file]}, (old, new))})


def without(file: str) -> Inputs:
    return Inputs(files={name: content for name, content in SYSTEMS.items() if name != file})


ALL = tuple(KEEPERS)
CHANGES: dict[str, tuple[tuple[str, ...], Inputs]] = {
    "a role": (ALL, text("chained/roles/lift.yaml", "level + 1", "level + 2")),
    "a claim": (ALL, text("chained/invariants.yaml", "most + digest", "most")),
    "an included file": (ALL, text("shared/constants.yaml", "max: 9", "max: 8")),
    "who acts outside": (ALL, text("chained/system.yaml", "rise: {to: lift}", "rise: {to: lift, fair: true}")),
    "the system that it refines": (
        ("mutants", "proof"),
        text("plain/roles/top.yaml", "{ignore: {rise: it is up}}", "{on: {rise: {to: low}}}"),
    ),
    "actors that crash together": (
        ("mutants", "proof", "checkpoint"),
        text("chained/system.yaml", "house: [lifts, bells]", "cellar: [lifts, bells]"),
    ),
    "no actors that crash together": (
        ("mutants", "proof", "checkpoint"),
        text("chained/system.yaml", ", nodes: {house: [lifts, bells]}", ""),
    ),
    "a lemma": (("proof",), text("chained/lemmas.yaml", "level <= most", "level <= most + 1")),
    "no lemma": (("proof",), without("chained/lemmas.yaml")),
    "the battery": (("mutants",), text("chained/mutation.yaml", "[{}]", "[{}, {faults: crash=1}]")),
    "no battery": (("mutants",), without("chained/mutation.yaml")),
    "an empty battery": (("mutants",), text("chained/mutation.yaml", SYSTEMS["chained/mutation.yaml"], "")),
    **{
        f"{name}={value}": (("proof", "checkpoint", "database"), Inputs(settings={name: value}))
        for name, value in (("most", 3), ("digest", 2), ("system", False))
    },
    **{
        f"faults {budget}": (("checkpoint",), Inputs(budget=budget))
        for budget in ("none", "crash=1", "crash=2,power_cut=1", "crash=1,power_cut=1,lose=1")
    },
    "another form of results": (("mutants",), Inputs(patches=((mutant_results, "FORM", -1),))),
    "another form of proofs": (("proof",), Inputs(patches=((proof_store, "FORM", -1),))),
    "another form of checkpoints": (("checkpoint",), Inputs(patches=((checkpoint, "FORMAT", -1),))),
    "another Z3": (("proof",), Inputs(patches=((z3, "get_full_version", lambda: "Z3 0.1"),))),
    "another leasehold": (("checkpoint",), Inputs(patches=((importlib.metadata, "version", lambda name: "0"),))),
    **{
        source: (("mutants",), Inputs(source=source))
        for source in (
            "checker/explore/reference.py",
            "checker/explore/packed/engine/engine.h",
            "checker/explore/packed/engine/graph.c",
            "checker/crash/convergence.py",
            "checker/mutation/judge.py",
            "faults/model/budget.py",
            "faults/model/catalogue.yaml",
        )
    },
    **{
        source: (("proof",), Inputs(source=source))
        for source in ("checker/prove/prover.py", "checker/prove/encode/values.py", "checker/prove/decide/proof.py")
    },
    **{
        source: (("mutants", "proof"), Inputs(source=source))
        for source in ("spec/language/load.py", "spec/language/lower/lowering.py", "spec/language/keys.yaml")
    },
}
UNCHANGED = {
    "nothing": Inputs(),
    "a doc": text("chained/system.yaml", "doc: Depends on", "doc: It depends on"),
    "a comment": text("chained/roles/bell.yaml", "role: bell", "role: bell  # that rings"),
    "what is no source": Inputs(source="spec/language/notes.txt"),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of the checker's sources, for the keys alone."""
    folder: Path = tmp_path_factory.mktemp("sources")
    for name in COPIED:
        shutil.copytree(TREE / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (folder / "spec/language/notes.txt").touch()
    return folder


@pytest.fixture
def begin(sources: Path, tmp_path: Path) -> Iterator[Callable[[Inputs], Place]]:
    """Makes what a process finds that begins with these inputs, in place of the last one."""
    patch, texts = pytest.MonkeyPatch(), dict[Path, str]()

    def end() -> None:
        patch.undo()
        mutant_results._sources.cache_clear()
        for file, content in texts.items():
            file.write_text(content)

    def begins(inputs: Inputs) -> Place:
        end()
        if inputs.source:
            file = sources / inputs.source
            texts[file] = file.read_text()
            file.write_text(f"{texts[file]}\n")
        patch.setenv(VARIABLE, str(tmp_path / "kept"))
        language = SimpleNamespace(__path__=[str(sources / "spec/language")])
        for module in (mutant_results, proof_store):
            patch.setattr(module, "language", language)
        for name in ("checker", "faults"):
            patch.setattr(mutant_results, name, SimpleNamespace(__path__=[str(sources / name)]))
        patch.setattr(proof_store, "__file__", str(sources / "checker/prove/decide/proof_store.py"))
        patch.setattr(proof_store, "_SOURCES", proof_store._sources())
        for module, name, value in inputs.patches:
            patch.setattr(module, name, value)
        return Place(tmp_path, inputs)

    (tmp_path / "kept").mkdir()
    yield begins
    end()


def skip_without_engine(kind: str) -> None:
    if kind == "checkpoint" and not library.FILE.exists():
        pytest.skip("the C engine was not built")


@pytest.mark.parametrize(
    ("kind", "change"), [(kind, name) for name, (kinds, _) in CHANGES.items() for kind in kinds], ids=str
)
def test_where_one_input_is_another_it_is_not_taken(kind: str, change: str, begin: Callable[[Inputs], Place]) -> None:
    """It is there still for the inputs that it was kept with."""
    skip_without_engine(kind)
    KEEPERS[kind].keep(begin(Inputs()))
    assert not is_taken(kind, begin(CHANGES[change][1]))
    assert is_taken(kind, begin(Inputs()))


@pytest.mark.parametrize("kind", KEEPERS)
def test_where_all_inputs_are_as_they_were_it_is_taken(kind: str, begin: Callable[[Inputs], Place]) -> None:
    """Also where a word differs that nothing depends on."""
    skip_without_engine(kind)
    assert kind in ("checkpoint", "database") or not is_taken(kind, begin(Inputs()))
    KEEPERS[kind].keep(begin(Inputs()))
    for name, inputs in UNCHANGED.items():
        assert is_taken(kind, begin(inputs)), name


def test_a_checkpoint_without_a_place_of_its_own_is_in_that_of_its_key(
    begin: Callable[[Inputs], Place], tmp_path: Path
) -> None:
    changed = Inputs(settings={"most": 3})
    places = [
        checkpoint.usual_place(checkpoint.key_of(reference_of(begin(inputs).system), symmetry=False))
        for inputs in (Inputs(), changed, Inputs())
    ]
    assert places[0] == places[2] != places[1]
    assert {place.parent for place in places} == {tmp_path / "kept" / "checkpoints"}


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "one.c").write_text("2"),
        lambda folder: (folder / "two.h").write_text("1 "),
        lambda folder: (folder / "one.c").rename(folder / "three.c"),
        lambda folder: (folder / "three.h").touch(),
        lambda folder: (folder / "two.h").unlink(),
    ],
)
def test_the_text_of_the_engine_is_known_by_each_of_its_files(change: Callable[[Path], object], tmp_path: Path) -> None:
    write(tmp_path, {"one.c": "1", "two.h": "1", "notes": "1"})
    before = library.source_digest(tmp_path)
    (tmp_path / "notes").write_text("2")
    assert library.source_digest(tmp_path) == before
    change(tmp_path)
    assert library.source_digest(tmp_path) != before
