"""`leasehold simulate`: policies of brokers on streams of requests, in virtual time, judged and compared."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from leasehold.checker.policies.run import PolicyChoice, PolicyRun, simulate
from leasehold.checker.policies.stream import Generator, Stream, StreamError, read_stream
from leasehold.cli.common import Exit, interruptible, json_option, make_folder, print_json, set_option, verb, writing
from leasehold.cli.progress import Status
from leasehold.impl.policy import plugins
from leasehold.impl.policy.plugins import Plugin, PluginError
from leasehold.reports import simulation

TIMES = 2  # the largest request, as units of a site where nobody says how many it has
MOST_UNITS = 4000  # that the lease's specification takes


@verb("simulate", refusals={StreamError: Exit.BAD_SPEC, PluginError: Exit.BAD_SPEC})
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Requests from a file: of the Standard Workload Format (.swf), or a table with commas.",
)
@click.option(
    "--generate",
    metavar="SETTINGS",
    help="Requests by chance: rate=, units=, ticks=, seed=, requests=, users=, patience=, bids=, as in the example.",
)
@click.option(
    "--units",
    type=click.IntRange(1, MOST_UNITS),
    help="Units of the site; default: as the trace says, or twice the largest request.",
)
@click.option("--term", type=click.IntRange(1), metavar="TICKS", help="A ticket's term; default: all of a request.")
@click.option("--patience", type=click.IntRange(1), metavar="TICKS", help="For how long a request of the trace waits.")
@click.option(
    "--tick-seconds", type=click.IntRange(1), default=60, show_default=True, help="Seconds of a tick, in a .swf file."
)
@click.option(
    "--processors", type=click.IntRange(1), default=1, show_default=True, help="Processors of a unit, in a .swf file."
)
@click.option("--most", type=click.IntRange(1), metavar="N", help="Take the first requests of the trace, so many.")
@click.option(
    "--restart-every",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="After so many decisions another policy starts from the records alone, and has to decide alike; 0: none.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all that is left to chance."
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="Play so many streams, with seeds one after the other, and compare the figures over all of them.",
)
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page with plots (HTML)."
)
@set_option
@json_option
def simulate_(
    policies: tuple[str, ...],
    trace: Path | None,
    generate: str | None,
    units: int | None,
    term: int | None,
    patience: int | None,
    tick_seconds: int,
    processors: int,
    most: int | None,
    restart_every: int,
    seed: int,
    repeat: int,
    report: Path | None,
    settings: Mapping[str, str],
    as_json: bool,
) -> Exit:
    """Simulate policies of a broker on a stream of requests, side by side.

    A holder, a broker and a site, the real actors, run in one process in virtual time; what is measured is
    seen at the units and at the clients. POLICY is a name as in a configuration, FILE.py:CLASS or
    module:CLASS, perhaps with settings. The policy finds the columns of the stream in the properties of a
    request: `user`, `weight`, `bid`, `until_start`, `deadline`, `ticks`.

    Every so many decisions another policy of the kind is started from the broker's records, beside the one
    that decides; one that then decides otherwise would do so after a crash. That, a unit that two
    leases have, more promised than there is, and anything left at the end give exit code 1.

    Chance decides which policy looks best in one stream: `--repeat` says in how many it is.

    Example:  leasehold simulate earliest_deadline auction --generate rate=0.5,units=4,seed=1
              leasehold simulate ./mine.py:Mine --trace requests.csv --units 8 --report mine.html
              leasehold simulate auction --trace cluster.swf --tick-seconds 600 --processors 16
    """
    if (trace is None) == (generate is None):
        raise click.UsageError("give the requests: --trace FILE, or --generate SETTINGS")
    if report is not None:
        make_folder(report.parent, report)
    choices = [choice_of(text) for text in policies]
    if generate is not None:
        first = Generator.parse(generate, seed)
        made = [replace(first, seed=first.seed + more).stream() for more in range(repeat)]
    else:
        assert trace is not None
        if repeat > 1:
            raise click.UsageError("a trace is one stream; --repeat is for streams by chance (--generate)")
        made = [read_stream(trace, tick_seconds, processors, patience)]
    if most is not None:
        made = [Stream(one.name, one.requests[:most], one.units, one.left_out) for one in made]
    largest = max(request.units for one in made for request in one.requests)
    there = units or made[0].units or min(MOST_UNITS, max(1, TIMES * largest))
    if largest > min(there, MOST_UNITS):
        raise click.UsageError(
            f"a request asks for {largest} units, and the site has {there} (at most {MOST_UNITS}); give it more by "
            "--units, or, for a .swf file, units of several processors by --processors"
        )
    streams: list[tuple[Stream, list[PolicyRun]]] = []
    with interruptible(), Status("starting") as status:
        for stream in made:
            runs = [
                simulate(
                    choice,
                    stream,
                    there,
                    term=term,
                    restart_every=restart_every,
                    settings=settings,
                    seed=seed,
                    say=status.show,
                )
                for choice in choices
            ]
            streams.append((stream, runs))
    if as_json:
        print_json(simulation.json_of(streams))
    else:
        click.echo(simulation.text(streams))
    if report is not None:
        with writing(report):
            report.write_text(simulation.page(streams, _command(report)), encoding="utf-8")
    return Exit.HOLDS if all(run.right for _, runs in streams for run in runs) else Exit.VIOLATED


def choice_of(text: str) -> PolicyChoice:
    """A policy as it is written: its name, and settings behind commas, whose values are YAML.

    Raises:
        PluginError: there is no such policy, it cannot be imported, or a setting is none.
    """
    name, settings = plugins.written(text)
    if ":" in name and ".py" not in name:
        sys.path.insert(0, "")  # as `python -m` finds modules of the working folder
        plugin = Plugin("policy", name, name, "a module")
    else:
        plugin = plugins.find("policy", name)
    plugin.load()
    return PolicyChoice(text, plugin, settings)


def _command(report: Path) -> str:
    """The command line, without where its page is written."""
    words = [word for word in sys.argv[1:] if word not in ("--report", str(report), f"--report={report}")]
    return shlex.join(["leasehold", *words])
