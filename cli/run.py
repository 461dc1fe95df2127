"""`leasehold run`: an actor as a process."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

from leasehold.cli.common import Exit, verb
from leasehold.impl.compiler.contract_source import not_enforced
from leasehold.impl.core.codec import CoreError, RecordError
from leasehold.impl.lease.inventory import InventoryError
from leasehold.impl.observe import logs
from leasehold.impl.observe.watch import WatchError
from leasehold.impl.server.build import build
from leasehold.impl.server.config import ConfigError, read
from leasehold.impl.server.serve import serve
from leasehold.impl.store.store import StoreError

_UNFIT = (StoreError, RecordError, CoreError, InventoryError)  # the stored state of the actor does not fit


@verb(refusals=dict.fromkeys((ConfigError, WatchError), Exit.BAD_SPEC) | dict.fromkeys(_UNFIT, Exit.VIOLATED))
@click.argument("role")
@click.option(
    "--config", "path", required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The actor's configuration.",
)  # fmt: skip
@click.option("--check", is_flag=True, help="Look at everything, and start nothing.")
def run(role: str, path: Path, check: bool) -> None:
    """Run an actor that plays ROLE, until SIGTERM or Ctrl-C.

    ROLE is a role of the specification: service_manager, broker or authority of the lease. The file
    says the rest: store, address, keys, policy, handlers (docs/reference/running.md).

    It recovers every lease from its store first, and asks nobody. Killed at any moment, it goes on
    where it was when it is started again.

    Example:  leasehold run authority --config site.yaml
              leasehold run broker --config broker.yaml --check
    """
    try:
        config = read(path)
        os.chdir(path.parent)  # where the paths in it begin
        logs.configure(config.log.form, config.log.level, actor=config.name)
        built = build(config, (role,))
        if check:
            click.echo(f"{config.name} can run as {role}: specification {built.actor.program.digest[:12]}")
            for entry in not_enforced(built.system):
                if entry.role in built.actor.roles:
                    click.echo(entry)
            return
        logs.configure(config.log.form, config.log.level, actor=config.name, digest=built.actor.program.digest)
        asyncio.run(serve(built))
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
