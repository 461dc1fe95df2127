"""The command line: `leasehold VERB`."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from errno import EIO, ENOSPC

import click

from leasehold.cli.common import Exit, VerbGroup

# What is imported and loaded stays, so looking for cycles in it again and again only takes time.
gc.set_threshold(100_000, 50, 100)

# Where each verb is, in the order in which the help shows them.
SECTIONS: dict[str, dict[str, str]] = {
    "Systems": {
        "check": "check:check",
        "explore": "explore:explore",
        "crash": "crash:crash",
        "lint": "lint:lint",
        "prove": "prove:prove",
        "mutate": "mutate:mutate",
        "compile": "export:compile_",
        "export": "export:export",
        "report": "report:report",
        "serve": "serve:serve",
        "init": "init:init",
        "schema": "schema:schema",
        "lsp": "lsp:lsp",
        "cache": "cache:cache",
    },
    "Running actors": {
        "demo": "lease.demo:demo",
        "up": "up:up",
        "run": "run:run",
        "service": "service:service",
        "demand": "client:demand",
        "leases": "client:leases",
        "slice": "client:slice",
        "query": "client:query",
        "show": "client:show",
        "explain": "explain:explain",
        "extend": "client:extend",
        "close": "client:close",
        "stock": "delegations:stock",
        "delegate": "delegations:delegate",
        "undelegate": "delegations:undelegate",
        "delegations": "delegations:delegations",
        "package": "packages:package",
        "agent": "agent:agent",
        "begin": "client:begin",
        "tell": "client:tell",
        "units": "client:units",
        "recover": "client:recover",
        "clients": "client:clients",
        "events": "events:events",
        "verify": "verify:verify",
        "conform": "conform:conform",
        "replay": "replay:replay",
        "simulate": "simulate:simulate_",
        "harness": "harness:harness",
        "migrate": "migrate:migrate",
    },
    "Keys and trust": {
        "keygen": "keys:keygen",
        "key": "keys:key",
        "trust": "trust:trust_",
        "add-actor": "trust:add_actor",
        "rotate": "trust:rotate_",
        "revoke": "trust:revoke_",
        "remove-actor": "trust:remove_actor",
        "readdress": "trust:readdress_",
        "tickets": "delegations:tickets",
    },
}


@click.group(
    cls=VerbGroup, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="leasehold", prog_name="leasehold")
def cli() -> None:
    """Check systems of interacting recoverable state machines, written in YAML, and run them.

    SYSTEM is a shipped system (lease, two_phase_commit, three_phase_commit, three_phase_commit_termination,
    contention, delegation, group, grace_period, agent) or a folder that holds system.yaml.

    \b
    Start here:  leasehold check lease
                 leasehold demo
                 leasehold init my_system
    """  # noqa: D301 (click reads the character)


def main() -> None:
    """Runs the command line and leaves with its exit code."""
    # Before it ends, the interpreter looks for cycles among all that there is, which would take a tenth of the time.
    atexit.register(gc.freeze)
    try:
        cli(prog_name="leasehold")
    except SystemExit as leaving:
        # Whoever read our output has gone (`| head`): click says 1 then, which is the code of a violation.
        if isinstance(leaving.__context__, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(Exit.NO_READER)
        raise
    except MemoryError as error:
        message = str(error) or "there is no more memory; a search stops before that with --memory SIZE"
        click.echo(f"leasehold: {message}", err=True)
        sys.exit(Exit.BAD_SPEC)
    except PermissionError as error:
        if error.filename is None:
            raise
        click.echo(f"leasehold: {error.filename}: {error.strerror}", err=True)
        sys.exit(Exit.BAD_SPEC)
    except OSError as error:
        from leasehold.impl.descriptors import is_passing  # seldom asked for

        if is_passing(error):  # such as where an actor's loop is made
            click.echo(f"leasehold: {error.strerror}: give the process more (`ulimit -a`), and try again", err=True)
            sys.exit(Exit.BAD_SPEC)
        if error.errno not in (ENOSPC, EIO):
            raise
        # Nothing more can be printed there, and nobody should take the part that was for the whole.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"leasehold: the output cannot be written: {error.strerror}", err=True)
        sys.exit(Exit.BAD_SPEC)
