"""Actors are made from configurations a hundred times, of few systems: each is loaded and compiled once."""

import pytest

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.server import build
from leasehold.spec import System
from tests.systems import load_for_run

_compiled: dict[int, tuple[System, Program]] = {}  # by a system's identity, which it keeps as long as it is here


def compiled(system: System) -> Program:
    """As `compile_system`; programs are immutable, as systems are."""
    if id(system) not in _compiled:
        _compiled[id(system)] = system, compile_system(system)
    return _compiled[id(system)][1]


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "load_for_run", load_for_run)
    monkeypatch.setattr(build, "compile_system", compiled)
