"""Loads a system as actors run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leasehold.spec.language.bounds import as_running
from leasehold.spec.language.declare.build import TICK
from leasehold.spec.language.diagnostics import NOWHERE, Sink
from leasehold.spec.language.load import load_files
from leasehold.spec.language.model import System
from leasehold.spec.language.types import show


def load_for_run(
    name_or_folder: str | Path,
    settings: Mapping[str, str | int | bool] | None = None,
    more: Sequence[Path] = (),
) -> System:
    """Reads a system as actors run it: what bounds exploring is as it is in every run (bounds.py).

    A limit of checkers, such as the number of machines of which each a claim is made, stops no run.

    Args:
        name_or_folder: as `load` takes it.
        settings: values for those constants that are settings of a run.
        more: as `load` takes it.

    Raises:
        SpecError: as `load`; also where a setting is a constant that bounds exploring, and where time alone takes a
            machine on that nothing has begun, which no run shows.
    """
    system, sink = load_files(name_or_folder, settings or {}, more=more, decided=False), Sink()
    known = [name for name, constant in system.constants.items() if not constant.bounds]
    for name in settings or ():
        if (constant := system.constants[name]).bounds:
            reason = "no run has that bound"
            if constant.running is not None:
                reason = f"it is {show(constant.type, constant.running)} in every run"
            sink.error("bound_for_run", NOWHERE, word=name, running=reason, known=known or "none")
    for role in () if system.standing else system.roles.values():
        for state in role.initial:
            for case in state.on.get(TICK, ()):
                sink.error("ticks_before_it_begins", case.place, role=role.name, state=state.name)
    sink.raise_errors()
    return as_running(system)
