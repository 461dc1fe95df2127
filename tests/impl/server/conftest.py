"""Actors are made from configurations a hundred times, of few systems: each is loaded and compiled once."""

from pathlib import Path

import pytest

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
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


@pytest.fixture
def broker_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the key of a broker and a trust set that has it alone."""
    monkeypatch.chdir(tmp_path)
    key = PrivateKey.generate()
    key.save(Path("broker.key"))
    trust_file.save(Path("trust.yaml"), add(Trust(), "broker", "broker", key.public, "http://127.0.0.1:1"))
    return tmp_path
