"""Loads a system as actors run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leasehold.spec.language.bounds import as_running
from leasehold.spec.language.diagnostics import NOWHERE, Sink
from leasehold.spec.language.load import load
from leasehold.spec.language.model import System
from leasehold.spec.language.types import show


def load_for_run(
    name_or_folder: str | Path,
    settings: Mapping[str, str | int | bool] | None = None,
    more: Sequence[Path] = (),
) -> System:
    """Reads a system as actors run it: what bounds exploring is as it is in every run (bounds.py).

    Args:
        name_or_folder: as `load` takes it.
        settings: values for those constants that are settings of a run.
        more: as `load` takes it.

    Raises:
        SpecError: as `load`; also where a setting is a constant that bounds exploring.
    """
    system, sink = load(name_or_folder, settings, more), Sink()
    known = [name for name, constant in system.constants.items() if not constant.bounds]
    for name in settings or ():
        if (constant := system.constants[name]).bounds:
            words = "no run has that bound"
            if constant.running is not None:
                words = f"it is {show(constant.type, constant.running)} in every run"
            sink.error("bound_for_run", NOWHERE, word=name, running=words, known=known or "none")
    sink.raise_errors()
    return as_running(system)
