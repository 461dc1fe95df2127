"""Shipped systems and those of tests/truth, each loaded once for a choice of constants: they are immutable."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

from leasehold import spec
from leasehold.checker.recovery.cases.campaign import scripts_of
from leasehold.checker.recovery.cases.steps import Script
from leasehold.spec import SHIPPED, System

TRUTH = Path(__file__).parent / "truth"
CONSTRUCTS = Path(__file__).parent / "constructs"
Settings: TypeAlias = Mapping[str, str | int | bool]
_loaded: dict[tuple[object, str, str], System] = {}


def load(name_or_folder: str | Path, settings: Settings | None = None) -> System:
    """As `leasehold.spec.load`; a folder that a test may write to is read again."""
    return _once(spec.load, name_or_folder, settings)


def load_for_run(name_or_folder: str | Path, settings: Settings | None = None) -> System:
    """As `leasehold.spec.load_for_run`; a folder that a test may write to is read again."""
    return _once(spec.load_for_run, name_or_folder, settings)


def _once(loading: Callable[..., System], name_or_folder: str | Path, settings: Settings | None) -> System:
    if name_or_folder not in SHIPPED and TRUTH not in Path(name_or_folder).parents:
        return loading(name_or_folder, settings)
    key = loading, str(name_or_folder), repr(sorted((settings or {}).items()))
    if key not in _loaded:
        _loaded[key] = loading(name_or_folder, settings)
    return _loaded[key]


@cache
def lease_cases(**settings: int) -> list[Script]:
    """A script for each case of the lease's recovery campaign: that takes seconds, and scripts are immutable."""
    return scripts_of(load("lease", settings))[1]
