"""Plug-ins of the recovery checker: what a system has that its specification cannot tell, such as policies and units.

Theory of operation. Of any system, the checker answers for the environment as the specification allows. Where policies,
handlers and a world outside of the actors exist, a plug-in brings runs that use them, checks of its own, and further
campaigns. The plug-in itself says which systems it plays; a system that none plays has `GENERIC`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leasehold.checker.recovery.cases.runner import CaseRunner
from leasehold.spec import System

PLUGINS = ("leasehold.checker.recovery.lease.plugin:PLUGIN",)  # each is imported when a system is asked about


@dataclass(frozen=True, slots=True)
class RecoveryPlugin:
    """The parts that the recovery checker has for a kind of systems alone.

    Attributes:
        plays: whether a system is of the kind.
        runner: runs its cases.
        random_runs: the campaign of random runs (`crash random`); None: there is none.
        processes: the campaign with real processes (`crash processes`); None: there is none.
    """

    plays: Callable[[System], bool]
    runner: type[CaseRunner]
    random_runs: Callable[..., Any] | None = None
    processes: Callable[..., Any] | None = None


GENERIC = RecoveryPlugin(lambda system: True, CaseRunner)


def plugin_of(system: System) -> RecoveryPlugin:
    """The plug-in that plays a system."""
    plugins: map[RecoveryPlugin] = map(pkgutil.resolve_name, PLUGINS)
    return next((plugin for plugin in plugins if plugin.plays(system)), GENERIC)
