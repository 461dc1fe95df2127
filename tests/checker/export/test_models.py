"""Exported models are, word for word, those that SPIN and TLC were last asked about.

models.txt has a digest of each model of tests/truth, tests/constructs, shipped systems and systems made by chance,
with its settings and its left-out properties; or the error, where the format cannot express the system. The tests that
run SPIN and TLC say that a model is right; these say that it is the same. After a change that is meant,
`python tests/checker/export/test_models.py` rewrites the file, and the same with the name of a system and of a format
prints a model, to compare it with the one before.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from leasehold.checker.export import ExportError, ExportOptions, export_system
from leasehold.spec import System
from tests.checker.explore.by_chance import by_chance
from tests.checker.explore.clients import clients_by_chance
from tests.checker.export.test_fair_runs import CLAIMS
from tests.systems import CONSTRUCTS, TRUTH, files_of, load, written

LAMP = files_of("checker/export/systems/lamp")

MODELS = Path(__file__).with_name("models.txt")
FORMATS = ("promela", "tla")
DIGEST = re.compile(r"Specification [0-9a-f]{12}")  # of the text of a specification, words and all


def chance(seed: int, share: bool, faults: str, folder: Path) -> System:
    """A system of messages; with its channels' faults."""
    found = by_chance(folder, random.Random(seed), share)
    assert found is not None
    words = (folder / "system.yaml").read_text()
    return written(folder, {"system.yaml": re.sub(r"(kind: [a-z]+(\(\d\))?)\}", rf"\1{faults}}}", words)})


def clients(seed: int, folder: Path) -> System:
    return clients_by_chance(folder, random.Random(seed), CLAIMS, fair=("false", "true", "strong"))


def found_at(name: str, settings: dict[str, Any], folder: Path) -> System:
    return load(name, settings)


# Names that modules have already, fields whose values depend on the clock, bounds, and claims of every kind.
CROWDED = files_of("checker/export/systems/crowded")
SMALL: dict[str, dict[str, Any]] = {
    "lease": {"max_units": 1, "last_end": 1},
    "two_phase_commit": {"participants": 2},
    "three_phase_commit": {"participants": 2},
}
SYSTEMS: dict[str, Callable[[Path], System]] = {
    **{
        f"{parent.name}/{folder.name}": partial(found_at, str(folder), {})
        for parent in (TRUTH, CONSTRUCTS)
        for folder in sorted(parent.iterdir())
        if (folder / "system.yaml").is_file()
    },
    **{name: partial(found_at, name, settings) for name, settings in SMALL.items()},
    "lamp": lambda folder: written(folder, LAMP),
    "crowded": lambda folder: written(folder, CROWDED),
    **{f"messages {seed}": partial(chance, seed, False, "") for seed in (4, 7, 14, 28)},
    **{f"messages {seed}, shared": partial(chance, seed, True, "") for seed in (4, 9, 14)},
    "messages 36, reorder": partial(chance, 36, False, ", reorder: 1, lose: 1"),
    "messages 9, lose": partial(chance, 9, False, ", lose: any, duplicate: 1"),
    "messages 9, lose any": partial(chance, 9, False, ", lose: any"),
    "messages 15, reorder": partial(chance, 15, False, ", reorder: any, duplicate: 1"),
    "messages 12, duplicate": partial(chance, 12, False, ", duplicate: any"),
    **{f"clients {seed}": partial(clients, seed) for seed in (0, 1, 3)},
}


def models(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Yields the format and the text of each model of a system, or the error; with all that goes with it."""
    system = SYSTEMS[name](folder)
    for to in FORMATS:
        try:
            made = export_system(system, to, ExportOptions(slots=2))
        except ExportError as error:
            yield to, re.sub(r"^\S*/", "", str(error))
            continue
        left = [f"{part.name}: {part.why}" for part in made.left_out]
        yield to, DIGEST.sub("Specification", "\n".join([made.text, made.settings, *left]))


def lines(name: str, folder: Path) -> list[str]:
    """Returns the lines of models.txt on a system."""
    return [
        f"{name}  {to}  {sha256(text.encode()).hexdigest()[:16]} of {len(text.splitlines())} lines"
        if "\n" in text
        else f"{name}  {to}  {text}"
        for to, text in models(name, folder)
    ]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_model_is_as_it_was(name: str, tmp_path: Path) -> None:
    """Each model has the digest that models.txt has."""
    kept = [line for line in MODELS.read_text(encoding="utf-8").splitlines() if line.startswith(f"{name}  ")]
    assert lines(name, tmp_path) == kept


def test_models_differ_and_none_is_forgotten() -> None:
    """models.txt has a line for each system and format; most are models, and no two models are alike."""
    kept = [line.split("  ") for line in MODELS.read_text(encoding="utf-8").splitlines()]
    assert [(name, to) for name, to, _ in kept] == [(name, to) for name in SYSTEMS for to in FORMATS]
    digests = [text for *_, text in kept if text.endswith(" lines")]
    assert len(set(digests)) == len(digests) > 0.8 * len(kept)


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        if sys.argv[1:]:
            print(dict(models(sys.argv[1], Path(scratch) / "system"))[sys.argv[2]])
        else:
            all_lines = [line for n, name in enumerate(SYSTEMS) for line in lines(name, Path(scratch) / str(n))]
            MODELS.write_text("\n".join(all_lines) + "\n", encoding="utf-8")
