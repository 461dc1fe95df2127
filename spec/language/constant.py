"""The constants of a system: settings of a run, and bounds of exploring (bounds.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from leasehold.spec.language.diagnostics import NOWHERE, Place
from leasehold.spec.language.types import Type, Value

# What the value of a constant is for: what runs, claims about it, or how far it is explored.
Reader: TypeAlias = Literal["machines", "claims", "exploring"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A number or word that the user may set at the call (`--set NAME=VALUE`).

    Attributes:
        value: its value, where it bounds exploring, that of exploring.
        bounds: it bounds exploring, and is no setting of a run.
        running: its value in every run, where it bounds exploring; None: a run has no such bound.
    """

    name: str
    type: Type
    value: Value
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)
    bounds: bool = False
    running: Value = None
