"""Exporting: a system as a model that another checker explores, with the same states and properties.

A format is a module of this package, with a function `render(relation, options)`, and a row of FORMATS.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from leasehold.checker.export.shared import SLOTS, Exported, ExportError, ExportOptions, LeftOut
from leasehold.spec.language.lower import lower
from leasehold.spec.language.model import System

# The module of a format, and what reads it. A module is imported when its format is wanted.
FORMATS: Mapping[str, str] = {
    "promela": "Promela for SPIN",
    "tla": "TLA+ for TLC",
}


def export_system(system: System, to: str, options: ExportOptions | None = None) -> Exported:
    """The model of a system without faults of actors, in a format of FORMATS.

    Raises:
        ExportError: the system has something that the format has no way to say.
    """
    exported: Exported = import_module(f"{__name__}.{to}").render(lower(system), options or ExportOptions())
    return exported


__all__ = ["FORMATS", "SLOTS", "ExportError", "ExportOptions", "Exported", "LeftOut", "export_system"]
