"""The counterexamples that docs/invariants.md shows, as they are kept: tests/invariants/SYSTEM.json.

Each is of a mutant of the system (checker/mutation), by its name, in a setting of the constants and perhaps under
faults; it has the shortest path to a violation of one property as it is drawn. A mutant has one change, or two where no
change alone was seen to violate the property. Whether the mutants still violate the properties so is asked by
test_invariants.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path as File
from typing import Any

import yaml

from leasehold.checker.explore.result import Path, PropertyResult
from leasehold.checker.mutation.battery import Trial
from leasehold.checker.mutation.operators import Mutation
from leasehold.checker.verify.queries import claim_text
from leasehold.faults.model import Budget
from leasehold.reports.mermaid import path_mermaid
from leasehold.spec import SHIPPED
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Property, System

FOLDER = File(__file__).parent
SEARCHED = tuple(name for name in SHIPPED if (FOLDER / f"{name}.json").is_file())  # systems that were searched
_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a mutant: its name; `rule`, `subject` and `what` say what is wrong, `file` and `line` where."""

    mutant: str
    rule: str
    subject: str
    what: str
    file: str
    line: int

    @classmethod
    def of(cls, m: Mutation) -> Change:
        return cls(m.name, m.rule, m.subject, m.what, m.place.file, m.place.line)


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A mutant that violates a property.

    Attributes:
        changes: what is wrong with it.
        settings: of the constants; `faults`: the budget, or empty.
        also: the other properties that it violates there.
        failed: of a claim that joins several, the parts that are false in the end.
        steps: of the path; `values`: of what the property speaks of, in its last state; `drawn`: the path as Mermaid.
    """

    changes: tuple[Change, ...]
    settings: dict[str, str]
    faults: str
    also: tuple[str, ...]
    failed: tuple[str, ...]
    steps: int
    values: tuple[str, ...]
    drawn: tuple[str, ...]

    @classmethod
    def of(
        cls,
        system: System,
        changes: Iterable[Mutation],
        trial: Trial,
        p: Property,
        result: PropertyResult,
        also: Collection[str],
    ) -> Counterexample:
        """The path of a result that has one."""
        path = result.path
        assert path is not None
        return cls(
            tuple(map(Change.of, changes)),
            dict(trial.settings),
            "" if trial.budget is None else str(trial.budget),
            tuple(sorted(also)),
            result.failed,
            len(path),
            tuple(_values(p, path)),
            tuple(drawn(system, path)),
        )

    @property
    def trial(self) -> Trial:
        """The setting and the faults."""
        return Trial(tuple(self.settings.items()), Budget.parse(self.faults) if self.faults else None)


def drawn(system: System, path: Path) -> list[str]:
    """A path as Mermaid; opaque values are left out where all are the same: they would only make the picture wide."""
    events = (event for role in system.roles.values() for event in role.events.values())
    fields = [f for each in (*system.messages.values(), *events) for f in each.fields]
    opaque = {f.name for f in fields if isinstance(f.type, t.Opaque)}
    opaque -= {f.name for f in fields if not isinstance(f.type, t.Opaque)}
    text = path_mermaid(path)
    if not opaque:
        return text.splitlines()
    argument = re.compile(rf"(?:(?<=\()|, )(?:{'|'.join(sorted(opaque))})=(\w+)")
    if len(set(argument.findall(text))) <= 1:
        text = argument.sub("", text).replace("(, ", "(").replace("()", "")
    return text.splitlines()


def _values(p: Property, path: Path) -> Iterator[str]:
    """The fields of records that a property speaks of, in the last state, and before a last step that changed them."""
    words = claim_text(p)
    states = [path.initial, *(step.state for step in path.steps)]
    before, last = list(pairwise([states[0], *states]))[-1]
    if last.now is not None and re.search(r"\bnow\b", words):
        yield f"now = {last.now}"
    for name, value in last.data.items():
        machine, _, field = name.rpartition(".")
        role = _INDEX.sub("", machine)
        # A machine among several is called by a variable there.
        if re.search(rf"\b{re.escape(role)}\.{field}\b", words) or (
            role != machine and re.search(rf"\b[a-z]\.{field}\b", words)
        ):
            old = before.data.get(name, value)
            yield f"{name} = {value}" if old == value else f"{name} = {value} (before: {old})"


@dataclass(frozen=True, slots=True)
class Stored:
    """The counterexamples of a system, by property; `tried` is how many mutants were explored to find them."""

    system: str
    tried: int
    counterexamples: Mapping[str, Counterexample]


def read(system: str) -> Stored:
    """Results for a system, as they are kept."""
    found = json.loads((FOLDER / f"{system}.json").read_text(encoding="utf-8"))
    examples = {name: _counterexample(kept) for name, kept in found["counterexamples"].items()}
    return Stored(found["system"], found["tried"], examples)


def _counterexample(kept: dict[str, Any]) -> Counterexample:
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in kept.items()}
    return Counterexample(**{**fields, "changes": tuple(Change(**change) for change in kept["changes"])})


def unviolated(system: str) -> dict[str, str]:
    """The properties that no mutant was seen to violate, with the reason."""
    found: dict[str, dict[str, str]] = yaml.safe_load((FOLDER / "unviolated.yaml").read_text(encoding="utf-8"))
    return found.get(system, {})


def drawn_by_hand(system: str, name: str) -> list[str]:
    """The run of a system that the linter refuses, which violates what no mutant does, as Mermaid."""
    return (FOLDER / f"{system}.{name}.mmd").read_text(encoding="utf-8").splitlines()


def write(stored: Stored) -> None:
    """Keeps those of a system."""
    plain = {
        "system": stored.system,
        "tried": stored.tried,
        "counterexamples": {name: asdict(one) for name, one in stored.counterexamples.items()},
    }
    text = json.dumps(plain, indent=1, ensure_ascii=False)
    (FOLDER / f"{stored.system}.json").write_text(f"{text}\n", encoding="utf-8")
