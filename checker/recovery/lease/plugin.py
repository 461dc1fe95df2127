"""The plug-in of the lease: after the restart real policies decide, and leases, policies and units are checked."""

from __future__ import annotations

from leasehold.checker.recovery.lease.processes.campaign import campaign as process_campaign
from leasehold.checker.recovery.lease.random_runs.campaign import random_campaign
from leasehold.checker.recovery.lease.run import AUTHORITY, BROKER, SERVICE_MANAGER
from leasehold.checker.recovery.lease.runner import LeaseCaseRunner
from leasehold.checker.recovery.plugins import RecoveryPlugin
from leasehold.spec import System


def plays(system: System) -> bool:
    """Returns whether a system is the lease of one service manager, broker and authority.

    Policies and units exist for it.
    """
    roles = [system.roles.get(name) for name in (SERVICE_MANAGER, BROKER, AUTHORITY)]
    return all(role is not None and not role.indexed for role in roles)


PLUGIN = RecoveryPlugin(plays, LeaseCaseRunner, random_campaign, process_campaign)
