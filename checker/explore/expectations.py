"""Expectations in a system's `expected.yaml`, compared with an exploration; and explanations in its other files.

A difference is a finding of its own, in both directions: a property that was expected to fail and holds is as wrong as
one that fails unexpectedly, and an explanation of something that is no longer so is out of date. Explanations in
`crash.yaml` and `mutation.yaml` are patterns of names, each with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from leasehold.checker.explore.result import AT_VIOLATION, Exploration
from leasehold.spec import SpecError, find
from leasehold.spec.language.diagnostics import NOWHERE, Place, Sink, near_miss
from leasehold.spec.language.expectation import Expectation
from leasehold.spec.language.model import System
from leasehold.spec.language.read.files import as_mapping
from leasehold.spec.language.read.shape import YamlShape
from leasehold.spec.language.read.shape_check import check_shape
from leasehold.spec.language.read.source import YamlNode, read_file

NEVER_TAKEN = "unvisited"  # the key of explanations for transitions that are never taken
NUMBERS = ("product", "reachable", "distinct", "generated", "edges", "depth", "initial")


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as expected.

    Attributes:
        what: a property, a number, a transition or a crash point.
        expected, found: in words.
        explain_under: the key that takes an explanation of it, where only that is missing; else empty.
    """

    what: str
    expected: str
    found: str
    explain_under: str = ""

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}"


def expectation_for(system: System) -> Expectation | None:
    """The expectation that speaks of the system's present constants, or None."""
    shown = {name: str(c.value).lower() for name, c in system.constants.items()}
    for expectation in system.expectations:
        wanted = {**{name: str(v).lower() for name, v in system.defaults.items()}, **_shown(expectation)}
        if wanted == shown:
            return expectation
    return None


def _shown(expectation: Expectation) -> dict[str, str]:
    return {name: str(value).lower() for name, value in expectation.settings.items()}


def counts(exploration: Exploration) -> dict[str, int]:
    """The numbers that an expectation may give, by name."""
    values = (
        exploration.product_states,
        len(exploration.cells),
        exploration.distinct,
        exploration.generated,
        exploration.edges,
        exploration.depth,
        exploration.initial,
    )
    return dict(zip(NUMBERS, values, strict=True))


def differences(exploration: Exploration, expectation: Expectation | None) -> tuple[Difference, ...]:
    """Everything in which an exploration differs from its expectation; without one, only what is never right."""
    return tuple(_differences(exploration, expectation))


def _differences(exploration: Exploration, expectation: Expectation | None) -> Iterator[Difference]:
    violated = {p.name for p in exploration.properties if p.verdict == "violated"}
    meant = set(expectation.violated) if expectation else set()
    for name in sorted(violated - meant):
        yield Difference(name, "to hold", "violated")
    if exploration.why_incomplete == AT_VIOLATION:
        return  # of the rest nothing is known
    for name in sorted(meant - violated):
        yield Difference(name, "violated", "holds" if exploration.complete else "not violated")
    if not exploration.complete:
        yield Difference("exploration", "complete", exploration.why_incomplete)
        return
    if expectation is not None:
        numbers = counts(exploration)
        for name, wanted in expectation.numbers.items():
            if numbers[name] != wanted:
                yield Difference(name, f"{wanted:,}", f"{numbers[name]:,}")
    unvisited, vacuous = set(exploration.unvisited_transitions), set(exploration.vacuous)
    # What holds of every setting, listed or not.
    shared = expectation or next(iter(exploration.system.expectations), None)
    reasons = expectation.unvisited if expectation else {}
    shared_reasons = shared.shared_unvisited if shared else {}
    yield from _explained("never taken", "taken", NEVER_TAKEN, unvisited, reasons, shared_reasons)
    reasons = expectation.vacuous if expectation else {}
    shared_reasons = shared.shared_vacuous if shared else {}
    yield from _explained("vacuous", "not vacuous", "vacuous", vacuous, reasons, shared_reasons)


def _explained(
    actual: str, opposite: str, key: str, names: set[str], reasons: Iterable[str], shared_reasons: Iterable[str]
) -> Iterator[Difference]:
    own = set(reasons)
    shared = set(shared_reasons)
    for name in sorted(names - own - shared):
        yield Difference(name, "an explanation in expected.yaml", actual, key)
    for name in sorted(own - names):
        yield Difference(name, actual, opposite)


# Explanations


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason why a crash point is not met, or a mutant survives; `*` in the pattern stands for any characters."""

    pattern: str
    reason: str
    place: Place = field(default=NOWHERE, compare=False)

    def fits(self, name: str) -> bool:
        return fits_pattern(name, self.pattern)


def fits_pattern(name: str, pattern: str) -> bool:
    """Returns whether a name fits a pattern, in which `*` alone has a meaning."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def explanations_of(
    node: YamlNode | None, names: Iterable[str], kind: str, remedy: str, sink: Sink
) -> tuple[Explanation, ...]:
    """Reads a mapping from patterns to reasons; a pattern that fits none of `names` is an error (LH602)."""
    known, explanations = list(names), []
    for pattern, place, reason in as_mapping(node).pairs():
        if not any(fits_pattern(name, pattern) for name in known):
            near = near_miss(pattern, known)
            sink.error("unknown_explained", place, near=near, kind=kind, pattern=pattern[:80], remedy=remedy)
        explanations.append(Explanation(pattern, " ".join(reason.text.split()), place))
    return tuple(explanations)


def read_checked(name_or_folder: str | Path, file: str, shape: YamlShape, sink: Sink) -> YamlNode | None:
    """One of a system's own files beside its specification; None where there is none.

    Raises:
        SpecError: its shape is wrong.
    """
    folder, shown = find(name_or_folder)
    if not (folder / file).exists():
        return None
    node = read_file(folder / file, f"{shown}/{file}", sink)
    if node is None or not check_shape(node, shape, sink):
        raise SpecError(sink.found)
    return node
