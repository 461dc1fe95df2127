"""`leasehold service`: the words by which the init of a host keeps an actor running."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click

from leasehold.cli.common import Exit, verb
from leasehold.impl.server import service as services
from leasehold.impl.server.config import ConfigError, read_config

INITS = {"systemd": services.systemd_unit, "inittab": services.inittab_line}


@verb(refusals={ConfigError: Exit.BAD_SPEC})
@click.option(
    "--config",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The actor's configuration, where the host has it.",
)
@click.option("--init", default="systemd", type=click.Choice([*INITS]), show_default=True, help="The init of the host.")
@click.option("--program", default="", metavar="COMMAND", help="The host's leasehold; default: this one.")
@click.option("--user", default="", metavar="NAME", help="The user whose process it is; default: root.")
def service(config: Path, init: str, program: str, user: str) -> None:
    """Print the service by which a host's init keeps an actor running.

    It starts the actor again whatever has ended it, and leaves the processes of its units alone.

    Example:  leasehold service --config left.yaml >left.service
              leasehold service --config left.yaml --init inittab >>inittab
    """
    here = shutil.which("leasehold")
    words = shlex.split(program) if program else [here] if here else [sys.executable, "-m", "leasehold"]
    click.echo(INITS[init](read_config(config), config, words, user), nl=False)
