"""The verbs of agents: start and stop one on another host, over ssh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from leasehold.cli.common import Exit, VerbGroup, console, json_option, print_json, verb
from leasehold.impl.agent import remote
from leasehold.impl.agent.remote import KNOWN_HOSTS, RemoteError, destination_of
from leasehold.impl.server.config import ConfigError

_REFUSALS = dict.fromkeys((RemoteError, ConfigError), Exit.BAD_SPEC)


@click.group(cls=VerbGroup, sections={"Agents": {"start": "agent:start", "stop": "agent:stop"}})
def agent() -> None:
    """Start and stop the agents of hosts, over ssh.

    \b
    Example:  leasehold agent start root@left --config left.yaml
              leasehold agent stop root@left --config left.yaml
    """  # noqa: D301 (click reads the character)


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The words that lead to a host, and to the folder there."""
    path = click.Path(path_type=Path, dir_okay=False)
    for option in (
        json_option,
        click.option("--into", "folder", default="", metavar="DIR", help="The host's folder; default: leasehold/NAME."),
        click.option("--identity", "keys", type=path, multiple=True, help="A private key to log in with."),
        click.option(
            "--known-hosts",
            type=path,
            default=KNOWN_HOSTS,
            show_default=True,
            help="The keys of hosts, which must match.",
        ),
        click.option("--port", type=click.IntRange(1, 65535), default=22, show_default=True, help="Of the host's ssh."),
        click.option(
            "--config",
            type=click.Path(path_type=Path, dir_okay=False, exists=True),
            required=True,
            help="The agent's configuration, with its key and its trust set beside it.",
        ),
        click.argument("destination", metavar="[USER@]HOST"),
    ):
        function = option(function)
    return function


@verb(refusals=_REFUSALS)
@_options
@click.option("--program", default="leasehold", show_default=True, help="The host's own leasehold.")
@click.option("--install", default="", metavar="WHAT", help="Install a wheel, or a requirement, in the folder first.")
def start(
    destination: str,
    config: Path,
    port: int,
    known_hosts: Path,
    keys: tuple[Path, ...],
    folder: str,
    as_json: bool,
    program: str,
    install: str,
) -> None:
    """Have the agent of a configuration run on a host; repeated, it changes nothing.

    The configuration, its key and its trust set are copied; an agent that runs with other ones is started anew.
    Its log is agent.log in the folder. The host's init does not start it again, for which `leasehold service` is:
    another `start` does.

    Example:  leasehold agent start root@left --config left.yaml
              leasehold agent start left --config left.yaml --install leasehold
    """
    way = destination_of(destination, port, known_hosts=known_hosts, keys=keys)
    started = asyncio.run(remote.start(way, config, folder, program, install))
    if as_json:
        print_json({"started": started.began, "changed": list(started.changed), "about": dict(started.about)})
    else:
        changed = f"; changed: {', '.join(started.changed)}" if started.changed else ""
        console().print(f"{config.stem} {'was started' if started.began else 'runs already'} on {way.host}{changed}")


@verb(refusals=_REFUSALS)
@_options
def stop(
    destination: str,
    config: Path,
    port: int,
    known_hosts: Path,
    keys: tuple[Path, ...],
    folder: str,
    as_json: bool,
) -> None:
    """End the agent of a configuration on a host; its units go on.

    Example:  leasehold agent stop root@left --config left.yaml
    """
    way = destination_of(destination, port, known_hosts=known_hosts, keys=keys)
    ran = asyncio.run(remote.stop(way, config, folder))
    if as_json:
        print_json({"stopped": ran})
    else:
        console().print(f"{config.stem} {'has ended' if ran else 'did not run'}")
