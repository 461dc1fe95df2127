"""Test cases in files: a stretch of a log, or a counterexample of the explorer, each with the system that it is of.

A file is YAML or JSON. `case` says which kind it is; a report of `leasehold explore --json` has a case for each
property that it shows to be violated. A system that is not shipped is named by its folder, relative to the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, get_origin

import yaml
from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import fields, replace

from leasehold.checker.recovery.cases.log_case import LogCase, LogPlayer, PlayedLog
from leasehold.checker.recovery.cases.path_case import CaseError, PathCase, reported_cases
from leasehold.checker.recovery.cases.played import PlayedCounterexample, play_counterexample
from leasehold.faults.model import BudgetError
from leasehold.impl.files import Unreadable, read_yaml
from leasehold.impl.words import did_you_mean
from leasehold.spec import System, load
from leasehold.spec.language.load import SHIPPED
from leasehold.spec.language.types import show

Case: TypeAlias = LogCase | PathCase
Played: TypeAlias = PlayedLog | PlayedCounterexample
KINDS: Mapping[str, type[Case]] = {"log": LogCase, "counterexample": PathCase}  # by what a file says as its `case`
WORDS = {str: "text", list: "list", dict: "mapping"}
FILES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class StoredCase:
    """A case, and the system that plays it."""

    case: Case
    system: System

    def play(self) -> Played:
        """Plays it.

        Raises:
            UnplayableLog: a log does not fit the system.
            NotRunnable: no actor can play the system.
        """
        if isinstance(self.case, LogCase):
            return LogPlayer(self.system, self.case).play()
        return play_counterexample(self.system, self.case)

    def text(self, file: Path) -> str:
        """The content of a file that has it.

        Raises:
            NoSuchStep: the system has no such path.
        """
        name = self.case.system
        if name not in SHIPPED:
            name = os.path.relpath(name, file.parent)
        case = self.case if isinstance(self.case, LogCase) else self.case.brief(self.system)
        plain = plain_case(replace(case, system=name))
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
        reason = one.why or "; ".join(
            f"{name}: {log!r}, not {actual!r}" for name, (actual, log) in one.difference.items()
        )
        return f"after {one.same} of {one.steps} steps the actors differ from the log at {one.at}: {reason}"
    return f"{one.name} is broken by the actors, as it is by the explorer's path" if one.reproduced else ""


def settings_of(system: System) -> dict[str, Any]:
    """The constants of a system that are not those that it declares, as a file has them."""
    settings = {}
    for name, constant in system.constants.items():
        if constant.value != system.defaults.get(name, constant.value):
            plain = isinstance(constant.value, bool | int | str)
            settings[name] = constant.value if plain else show(constant.type, constant.value)
    return settings


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
        CaseError: it is none, though it calls itself one, or it has nothing to play.
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
    stored, loaded = [], {}
    for case in cases:
        name = system or (case.system if case.system in SHIPPED else str(file.parent / case.system))
        key = name, tuple(case.settings.items())
        if key not in loaded:
            loaded[key] = load(name, {**case.settings, **(settings or {})})
        stored.append(StoredCase(replace(case, system=name), loaded[key]))
    return stored


def _cases(value: Mapping[str, Any], where: str) -> Sequence[Case]:
    return [read_case(value, where)] if "case" in value else reported_cases(value, where)


def plain_case(case: Case) -> dict[str, Any]:
    """A case as its file has it."""
    return dict(to_builtins(case, enc_hook=str))


def read_case(value: Mapping[str, Any], where: str) -> Case:
    """A case out of a file.

    Raises:
        CaseError: it is none.
    """
    kind = KINDS.get(str(value["case"]))
    if kind is None:
        raise CaseError(f"{where}: `case` is {str(value['case'])[:40]!r}; it is {' or '.join(KINDS)}")
    value = {name: one for name, one in value.items() if one is not None}
    for part in (part for part in fields(kind) if part.required):
        basic = get_origin(part.type) or part.type
        if not isinstance(value.get(part.encode_name), basic):
            raise CaseError(f"{where}: the key `{part.encode_name}` is missing, or no {WORDS[basic]}")
    try:
        return convert(value, kind, dec_hook=lambda kind, text: kind.parse(text))
    except ValidationError as error:
        raise CaseError(f"{where}: {error}") from None
