"""Systems of tests: those that stand in folders, and variants of them that a test writes.

Shipped systems and those in folders of tests are loaded once for a choice of constants: they are immutable.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

from leasehold import spec
from leasehold.checker.recovery.cases.campaign import scripts_of
from leasehold.checker.recovery.cases.steps import Script
from leasehold.spec import SHIPPED, System

TESTS = Path(__file__).parent
TRUTH = TESTS / "truth"
CONSTRUCTS = TESTS / "constructs"
Settings: TypeAlias = Mapping[str, str | int | bool]
_loaded: dict[tuple[object, str, str], System] = {}


def load(name_or_folder: str | Path, settings: Settings | None = None, more: Sequence[Path] = ()) -> System:
    """Loads as `leasehold.spec.load` does; a folder that a test may write to, and `more` properties, are read again."""
    return spec.load(name_or_folder, settings, more=more) if more else _once(spec.load, name_or_folder, settings)


def load_for_run(name_or_folder: str | Path, settings: Settings | None = None) -> System:
    """Loads as `leasehold.spec.load_for_run` does; a folder that a test may write to is read again."""
    return _once(spec.load_for_run, name_or_folder, settings)


def files_of(folder: str) -> dict[str, str]:
    """Returns the texts of a system by the names of its files; its folder is named from this one."""
    root = TESTS / folder
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.yaml"))}


def edited(files: Mapping[str, str], *edits: tuple[str, str]) -> dict[str, str]:
    """Returns the texts of a system in which others stand for some, each of which stands there."""
    for old, new in edits:
        assert any(old in text for text in files.values()), old
        files = {name: text.replace(old, new) for name, text in files.items()}
    return dict(files)


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Writes a system's files, and returns its folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def written(folder: Path, files: Mapping[str, str], settings: Settings | None = None) -> System:
    """Returns the system of these files, which are written to a folder that is not read again."""
    return load(write(folder, files), settings)


def _once(loading: Callable[..., System], name_or_folder: str | Path, settings: Settings | None) -> System:
    if name_or_folder not in SHIPPED and TESTS not in Path(name_or_folder).parents:
        return loading(name_or_folder, settings)
    key = loading, str(name_or_folder), repr(sorted((settings or {}).items()))
    if key not in _loaded:
        _loaded[key] = loading(name_or_folder, settings)
    return _loaded[key]


@cache
def lease_cases(**settings: int) -> list[Script]:
    """A script for each case of the lease's recovery campaign: that takes seconds, and scripts are immutable."""
    return scripts_of(load("lease", settings))[1]
