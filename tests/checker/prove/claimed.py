"""Systems of tests/checker/prove/systems, each with a claim that a test writes to it."""

from __future__ import annotations

from pathlib import Path

from tests.systems import edited, files_of, write


def kind_of(claim: str) -> str:
    return "step" if "old(" in claim or "took(" in claim else "always"


def claimed(folder: Path, systems: str, claim: str, *edits: tuple[str, str]) -> Path:
    """Writes a system of which `claim` is a property; files of the later of several systems stand for the earlier's."""
    files: dict[str, str] = {}
    for name in systems.split():
        files |= files_of(f"checker/prove/systems/{name}")
    property_of = f'properties:\n  claim: {{{kind_of(claim)}: "{claim}"}}\n'
    return write(folder, {**edited(files, *edits), "invariants.yaml": property_of})
