"""The catalogue of faults, as values: catalogue.yaml is its text, and docs/reference/faults.md is made from it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from importlib import resources

import yaml

from leasehold.faults.budget import Budget


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: the field of Budget that limits it, where it has a limit.
        doc: what it is, in a sentence.
        model: what the explorer does.
        actor: what is done to a running actor.
        source: where it comes from.
        steps: how a path prints it and what undoes it; words in capitals stand for names.
    """

    name: str
    doc: str
    model: str
    actor: str
    source: str
    steps: tuple[str, ...]

    @property
    def limited(self) -> bool:
        """Whether a budget says how often it comes; else it comes with every crash."""
        return self.name in {f.name for f in fields(Budget)}


@cache
def catalogue() -> tuple[Fault, ...]:
    """Every fault, in the order of the file."""
    text = resources.files("leasehold.faults").joinpath("catalogue.yaml").read_text("utf-8")
    return tuple(
        Fault(
            name, entry["doc"].strip(), entry["model"].strip(), entry["actor"].strip(), entry["source"].strip(),
            tuple(entry["steps"]),
        )
        for name, entry in yaml.safe_load(text).items()
    )  # fmt: skip
