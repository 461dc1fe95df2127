"""The command line: `leasehold VERB`. Exit codes: 0 holds, 1 a violation, 2 a bad specification or usage."""

from __future__ import annotations

import os
import sys
from errno import EIO, ENOSPC
from signal import SIGPIPE

import click

from leasehold.cli.check import check
from leasehold.cli.compile import compile_
from leasehold.cli.crash import crash
from leasehold.cli.explore import explore
from leasehold.cli.init import init
from leasehold.cli.lint import lint
from leasehold.cli.mutate import mutate
from leasehold.cli.report import report


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="leasehold", prog_name="leasehold")
def cli() -> None:
    """Check systems of interacting recoverable state machines, written in YAML.

    SYSTEM is a shipped system (lease, two_phase_commit, three_phase_commit, three_phase_commit_termination,
    contention) or a folder that holds system.yaml.

    \b
    Start here:  leasehold check lease
                 leasehold init my_system
    """  # noqa: D301 (click reads the character)


for verb in (check, explore, crash, lint, mutate, compile_, report, init):
    cli.add_command(verb)


def main() -> None:
    """Runs the command line and leaves with its exit code."""
    try:
        cli(prog_name="leasehold")
    except SystemExit as leaving:
        # Whoever read our output has gone (`| head`): click says 1 then, which is the code of a violation.
        if isinstance(leaving.__context__, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(128 + SIGPIPE)
        raise
    except OSError as error:
        if error.errno not in (ENOSPC, EIO):
            raise
        # Nothing more can be printed there, and nobody should take the part that was for the whole.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"leasehold: the output cannot be written: {error.strerror}", err=True)
        sys.exit(2)
