"""The expectations of expected.yaml: what the checker must find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.spec.language.diagnostics import NOWHERE, Place
from leasehold.spec.language.types import Value


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected result of the checker for one setting of the constants."""

    name: str
    settings: Mapping[str, Value]
    numbers: Mapping[str, int]
    violated: Mapping[str, str]
    unvisited: Mapping[str, str]
    vacuous: Mapping[str, str]
    shared_unvisited: Mapping[str, str] = field(default_factory=dict)  # explained for every run where it applies
    shared_vacuous: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)

    @property
    def explained(self) -> frozenset[str]:
        """Transitions and claims that are not put to the test, with a reason given."""
        return frozenset([*self.unvisited, *self.vacuous, *self.shared_unvisited, *self.shared_vacuous])
