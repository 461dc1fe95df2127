"""Every diagnostic of the language, whole, from the smallest spec that earns it.

``python tests/spec/language/test_bad_specs.py`` rewrites every expected.txt; read the difference before it is kept.
"""

import contextlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.impl.compiler.program import check_runnable
from leasehold.spec.language.diagnostics import Diagnostic, SpecError, codes
from leasehold.spec.language.load import load
from leasehold.spec.language.running import load_for_run

FOLDER = Path(__file__).resolve().parents[2] / "bad_specs"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def _grow(folder: Path) -> None:
    with (folder / "roles" / "light.yaml").open("a") as file:
        file.write("#" * (1 << 20))


def _multiply(folder: Path) -> None:
    file = folder / "roles" / "light.yaml"
    file.write_text(re.sub(r"([a-z]+)(\d+)(: \S+) \.\.\. \1(\d+)\3", _spread, file.read_text()))


def _spread(found: re.Match[str]) -> str:
    stem, first, value, last = found.groups()
    return ", ".join(f"{stem}{i}{value}" for i in range(int(first), int(last) + 1))


# What is done to a copy first, as the whole would be too large to read.
PREPARE: dict[str, Callable[[Path], None]] = {
    "LH102_too_large": _grow,
    "LH112_too_many_findings": _multiply,
    "LH113_too_large_a_role": _multiply,
}
ASKED = {"LH703_no_such_system": "leas"}  # what is asked for, where it is not the folder


def diagnostics(name: str) -> tuple[Diagnostic, ...]:
    """Returns what loading a bad spec finds; places begin with its name."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        folder = Path(name)
        shutil.copytree(FOLDER / name, folder)
        settings = folder / "settings.json"
        given = json.loads(settings.read_text()) if settings.is_file() else {}
        PREPARE.get(name, lambda _: None)(folder)
        try:
            system = (load_for_run if name.startswith(("LH704", "LH705")) else load)(ASKED.get(name, name), given)
            if name.startswith("LH8"):
                check_runnable(system)
            return system.warnings
        except SpecError as error:
            return error.diagnostics


def shown(found: tuple[Diagnostic, ...]) -> str:
    if len(found) > 20:
        found = (*found[:2], *(d for d in found if d.code == "LH112"))
    return "".join(f"{d}\n" for d in found)


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_message_is_as_expected(name: str) -> None:
    assert shown(diagnostics(name)) == (FOLDER / name / "expected.txt").read_text()


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("LH")])
def test_a_spec_has_the_one_fault_that_it_is_named_for(name: str) -> None:
    found = diagnostics(name)
    codes = {d.code for d in found} - ({"LH201"} if name.startswith("LH112") else set())
    assert codes == {name[:5]}


def test_every_code_has_a_bad_spec() -> None:
    assert {name[:5] for name in NAMES if name.startswith("LH")} == codes().keys()


@pytest.mark.parametrize("name", NAMES)
def test_every_error_names_its_place_and_a_way_out(name: str) -> None:
    for d in diagnostics(name):
        assert d.near or d.remedy, d
        assert d.place.file.startswith((name, "<settings>")), d


def test_many_faults_are_reported_at_once() -> None:
    assert len({d.code for d in diagnostics("many_in_one_machine")}) >= 8
    assert len({d.place.file for d in diagnostics("many_files_at_once")}) >= 4


if __name__ == "__main__":
    for each in NAMES:
        (FOLDER / each / "expected.txt").write_text(shown(diagnostics(each)))
