"""The commands that show a result again: a property's path, a case of a crash, a case or run of real actors."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leasehold.reports.crash_words import cell_name
from leasehold.spec.language.model import System
from leasehold.spec.language.types import show

if TYPE_CHECKING:  # they take a while to load
    from leasehold.checker.crash.analysis import CrashReport
    from leasehold.checker.crash.cases import Case


def replay_command(model: System, system: str, name: str, options: Sequence[str] = ()) -> str:
    """The command that shows the path of a property of a system, which was named so."""
    return shlex.join(
        ["leasehold", "explore", system, *_settings(model, model.defaults), *options, "--only", name, "--show", name]
    )


def undecided_commands(
    model: System, system: str, names: Collection[str], whole: bool, stopped: bool = False
) -> Iterator[str]:
    """Yields the commands that go on where a search has left properties open.

    Args:
        model: the system.
        system: its name or folder.
        names: of the properties.
        whole: all within the bounds was explored, so that exploring has no more to say.
        stopped: the search has stopped at a violation.
    """
    if not whole:
        on = ["--keep-going"] if stopped else []
        yield shlex.join(["leasehold", "explore", system, *_settings(model, model.defaults), *on])
    if any(model.properties[name].kind in ("always", "step") for name in names if name in model.properties):
        yield shlex.join(["leasehold", "prove", system, *_settings(model, model.defaults)])


def crash_command(model: System, system: str, faults: str) -> str:
    """The command that says of the same faults where and how a system does not return to a legal state."""
    usual = {**model.defaults, **model.faults.settings}
    return shlex.join(["leasehold", "crash", system, *_settings(model, usual), "--faults", faults])


def case_command(report: CrashReport, case: Case, system: str = "") -> str:
    """The command that prints the path of a case; `system` is how the system is named there."""
    cell, point, mode = case
    model = report.system
    usual = {**model.defaults, **model.faults.settings}
    where = [system or model.name, cell_name(cell), point]
    faults = ["--faults", str(report.budget), "--mode", mode]
    return shlex.join(["leasehold", "crash", "case", *where, *_settings(model, usual), *faults])


def rerun(verb: str, system: str, name: str) -> str:
    """The command that plays a case, or the random run of a seed, again; `verb` is that of `leasehold crash`."""
    which = f"--{name}" if verb == "random" else f"--only {shlex.quote(name)}"
    return f"leasehold crash {verb} {shlex.quote(system)} {which}"


def _settings(model: System, usual: Mapping[str, Any]) -> Iterator[str]:
    """Yields the options for constants that have not their usual values, which are values or words."""
    for name, constant in model.constants.items():
        value, word = show(constant.type, constant.value), usual[name]
        if value.lower() != (word.lower() if isinstance(word, str) else show(constant.type, word)):
            yield from ("--set", f"{name}={value}")
