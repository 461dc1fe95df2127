"""Plug-ins of the recovery checker: the system decides which one plays it."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.recovery import plugins
from leasehold.checker.recovery.cases.runner import CaseRunner
from leasehold.checker.recovery.lease.plugin import PLUGIN
from leasehold.checker.recovery.plugins import GENERIC, RecoveryPlugin, plugin_of
from tests.systems import load

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_lease_has_its_own_and_other_systems_have_none() -> None:
    assert plugin_of(load("lease")) is PLUGIN
    for system in ("contention", "two_phase_commit", "three_phase_commit", EXAMPLES / "ring", EXAMPLES / "register"):
        assert plugin_of(load(system)) is GENERIC
    assert (GENERIC.runner, GENERIC.random_runs, GENERIC.processes) == (CaseRunner, None, None)


MINE = RecoveryPlugin(lambda system: system.name == "ring", CaseRunner)


def test_the_first_that_plays_a_system_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "PLUGINS", (*plugins.PLUGINS, f"{__name__}:MINE"))
    assert plugin_of(load(EXAMPLES / "ring")) is MINE
    assert plugin_of(load("lease")) is PLUGIN
