"""Test cases in files: a stretch of a log, or a counterexample of the explorer, each with the system that it is of.

A file is YAML or JSON. `case` says which kind it is; a report of `leasehold explore --json` has a case for each
property that it shows to be violated. A system that is not shipped is named by its folder, relative to the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from leasehold.checker.recovery.cases import log_case, path_case
from leasehold.checker.recovery.cases.counterexample import NoSuchStep
from leasehold.checker.recovery.cases.log_case import LogCase
from leasehold.checker.recovery.cases.log_replay import LogPlayer, PlayedLog
from leasehold.checker.recovery.cases.path_case import CaseError, PathCase
from leasehold.checker.recovery.cases.played import PlayedCounterexample, play_counterexample
from leasehold.faults import BudgetError
from leasehold.impl.files import Unreadable, read_yaml
from leasehold.impl.words import did_you_mean
from leasehold.spec import System, load
from leasehold.spec.language.load import SHIPPED
from leasehold.spec.language.types import show

Played: TypeAlias = PlayedLog | PlayedCounterexample
FILES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class StoredCase:
    """A case, and the system that plays it."""

    case: LogCase | PathCase
    system: System

    def play(self) -> Played:
        """Plays it.

        Raises:
            UnplayableLog: a log does not fit the system.
            NotRunnable: no actor can play the system.
        """
        case = self.case
        if isinstance(case, LogCase):
            return LogPlayer(self.system, case).play()
        try:
            return play_counterexample(self.system, case.property, case.path(self.system), case.budget)
        except NoSuchStep as error:
            return PlayedCounterexample(case.property, "", len(case.steps), findings=[str(error)])

    def text(self, file: Path) -> str:
        """The content of a file that has it.

        Raises:
            NoSuchStep: the system has no such path.
        """
        words = self.case.system
        if words not in SHIPPED:
            words = os.path.relpath(words, file.parent)
        case = self.case if isinstance(self.case, LogCase) else self.case.brief(self.system)
        case = replace(case, system=words)
        plain = log_case.plain_case(case) if isinstance(case, LogCase) else path_case.plain_case(case)
        if file.suffix == ".json":
            return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"
        return str(yaml.safe_dump(plain, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True))


def wrong(one: Played) -> str:
    """Returns what is wrong with actors that have played a case, in a sentence; empty where nothing is.

    A log is to be played as it says; a counterexample is not to be reproduced.
    """
    if isinstance(one, PlayedLog):
        if not one.differs:
            return ""
        what = one.why or "; ".join(f"{name}: {log!r}, not {found!r}" for name, (found, log) in one.difference.items())
        return f"after {one.same} of {one.steps} steps the actors differ from the log at {one.at}: {what}"
    return f"{one.name} is broken by the actors, as it is by the explorer's path" if one.reproduced else ""


def settings_of(system: System) -> dict[str, Any]:
    """The constants of a system that are not those that it declares, as a file has them."""
    found = {}
    for name, constant in system.constants.items():
        if constant.value != system.defaults.get(name, constant.value):
            plain = isinstance(constant.value, bool | int | str)
            found[name] = constant.value if plain else show(constant.type, constant.value)
    return found


def stored_cases(
    file: Path, wanted: str | None = None, system: str | None = None, settings: Mapping[str, Any] | None = None
) -> list[StoredCase] | None:
    """The cases of a file; None: it is no file of cases, and may be something else.

    Args:
        file: a case, or what `leasehold explore --json` has printed.
        wanted: only the counterexample to this property.
        system: in place of the one that the file names.
        settings: constants in place of those that the file has.

    Raises:
        CaseError, UnplayableLog: it is none, though it calls itself one, or it has nothing to play.
        SpecError: its system is wrong.
    """
    if file.suffix not in FILES or not file.is_file():
        return None
    try:
        value = json.loads(file.read_bytes()) if file.suffix == ".json" else read_yaml(file)
    except (Unreadable, ValueError) as error:
        raise CaseError(f"{file}: it cannot be read: {error}") from None
    if not isinstance(value, dict) or not {"case", "properties"} & value.keys():
        return None
    try:
        cases = _cases(value, str(file))
    except BudgetError as error:
        raise CaseError(f"{file}: faults: {error}") from None
    if wanted is not None:
        known = [case.property for case in cases if isinstance(case, PathCase)]
        cases = [case for case in cases if isinstance(case, PathCase) and case.property == wanted]
        if not cases:
            hint = did_you_mean(wanted, known) or f" (there are: {', '.join(known) or 'none'})"
            raise CaseError(f"{file} has no counterexample to {wanted[:60]}{hint}")
    if not cases:
        raise CaseError(f"{file} has no counterexample: no property is violated")
    found, loaded = [], {}
    for case in cases:
        words = system or (case.system if case.system in SHIPPED else str(file.parent / case.system))
        key = words, tuple(case.settings.items())
        if key not in loaded:
            loaded[key] = load(words, {**case.settings, **(settings or {})})
        found.append(StoredCase(replace(case, system=words), loaded[key]))
    return found


def _cases(value: Mapping[str, Any], where: str) -> Sequence[LogCase | PathCase]:
    match value.get("case"):
        case log_case.CASE:
            return [log_case.read_case(value, where)]
        case path_case.CASE:
            return [path_case.read_case(value, where)]
        case None:
            return path_case.reported_cases(value, where)
    raise CaseError(f"{where}: `case` is {str(value['case'])[:40]!r}; it is {log_case.CASE} or {path_case.CASE}")
