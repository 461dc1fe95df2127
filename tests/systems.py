"""Shipped systems and those of tests/truth, each loaded once for a choice of constants: they are immutable."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from leasehold import spec
from leasehold.checker.recovery.cases.campaign import scripts_of
from leasehold.checker.recovery.cases.steps import Script
from leasehold.spec import SHIPPED, System

TRUTH = Path(__file__).parent / "truth"
_loaded: dict[tuple[str, str], System] = {}
_running: dict[tuple[str, str], System] = {}


def load(name_or_folder: str | Path, settings: Mapping[str, str | int | bool] | None = None) -> System:
    """As `leasehold.spec.load`; a folder that a test may write to is read again."""
    if name_or_folder not in SHIPPED and TRUTH not in Path(name_or_folder).parents:
        return spec.load(name_or_folder, settings)
    key = str(name_or_folder), repr(sorted((settings or {}).items()))
    if key not in _loaded:
        _loaded[key] = spec.load(name_or_folder, settings)
    return _loaded[key]


def load_for_run(name_or_folder: str | Path, settings: Mapping[str, str | int | bool] | None = None) -> System:
    """As `leasehold.spec.load_for_run`; shipped systems are loaded once."""
    if name_or_folder not in SHIPPED:
        return spec.load_for_run(name_or_folder, settings)
    key = str(name_or_folder), repr(sorted((settings or {}).items()))
    if key not in _running:
        _running[key] = spec.load_for_run(name_or_folder, settings)
    return _running[key]


@cache
def lease_cases(**settings: int) -> list[Script]:
    """A script for each case of the lease's recovery campaign: that takes seconds, and scripts are immutable."""
    return scripts_of(load("lease", settings))[1]
