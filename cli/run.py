"""`leasehold run`: an actor as a process."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

from leasehold.cli.common import Exit, verb
from leasehold.impl.compiler.contract_source import not_enforced
from leasehold.impl.core.codec import RecordError
from leasehold.impl.core.core import CoreError
from leasehold.impl.descriptors import raise_limit, require_descriptors
from leasehold.impl.lease.inventory import InventoryError
from leasehold.impl.observe import logs
from leasehold.impl.observe.watch import WatchError
from leasehold.impl.server.build import Built, build
from leasehold.impl.server.config import Config, ConfigError, read_config
from leasehold.impl.server.serve import serve
from leasehold.impl.store.store import StoreError

_UNFIT = (StoreError, RecordError, CoreError, InventoryError)  # the stored state of the actor does not fit


@verb(refusals=dict.fromkeys((ConfigError, WatchError), Exit.BAD_SPEC) | dict.fromkeys(_UNFIT, Exit.VIOLATED))
@click.argument("roles", metavar="[ROLE]...", nargs=-1)
@click.option(
    "--config",
    "paths",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="An actor's configuration; with several, the process has several actors.",
)
@click.option("--check", is_flag=True, help="Look at everything, and start nothing.")
def run(roles: tuple[str, ...], paths: tuple[Path, ...], check: bool) -> None:
    """Run an actor that plays ROLE, until SIGTERM or Ctrl-C.

    ROLE is a role of the specification: service_manager, broker or authority of the lease. An actor may
    play several; left out, it plays those that the trust set has it as. The file says the rest: store,
    address, keys, policy, handlers (docs/reference/running.md).

    It recovers every lease from its store first, and asks nobody. Killed at any moment, it goes on
    where it was when it is started again.

    Example:  leasehold run authority --config site.yaml
              leasehold run broker --config broker.yaml --check
              leasehold run --config node-0.yaml --config node-1.yaml
    """
    try:
        configs = [read_config(path) for path in paths]
        if len({path.parent.resolve() for path in paths}) > 1:
            raise ConfigError("--config: the actors of one process have their configurations in one folder")
        os.chdir(paths[0].parent)  # where the paths in them begin
        names = ", ".join(config.name for config in configs)
        first = configs[0]
        logs.configure(first.log.form, first.log.level, actor=names)
        built = [_build(config, roles, several=len(configs) > 1) for config in configs]
        if check:
            for each in built:
                _tell(each)
            return
        if len(built) == 1:
            logs.configure(first.log.form, first.log.level, actor=names, digest=built[0].actor.program.digest)
        raise_limit()
        require_descriptors()
        asyncio.run(serve(*built))
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


def _build(config: Config, roles: tuple[str, ...], several: bool) -> Built:
    try:
        return build(config, roles)
    except ConfigError as error:
        raise (ConfigError(f"{config.name}: {error}") if several else error) from None


def _tell(built: Built) -> None:
    """Prints what an actor would run as."""
    actor, played = built.actor, ", ".join(built.roles)
    click.echo(f"{built.config.name} can run as {played}: specification {actor.program.digest[:12]}")
    for entry in not_enforced(built.system):
        if entry.role in actor.roles:
            click.echo(entry)
