"""`leasehold explain`: why a lease is where it is, from its running actors or from their events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from leasehold.checker.explain.explanation import ExplainedLease, Explainer, UnknownLease
from leasehold.checker.explain.story import StoryEntry, told_by_actors
from leasehold.checker.explain.views import OtherSystem
from leasehold.checker.history.moments import NoSuchMoment
from leasehold.checker.verify.drawn import path_of
from leasehold.cli.client import everywhere
from leasehold.cli.common import Exit, json_option, no_such, print_json, say, verb, writing
from leasehold.cli.leases import explained
from leasehold.cli.sources import SOURCE_REFUSALS, source_options, stretch_at
from leasehold.reports.lifelines import path_svg
from leasehold.reports.story import story_lines

LISTED = 5  # leases that are named where one is not found


@verb(refusals={**SOURCE_REFUSALS, NoSuchMoment: Exit.BAD_SPEC, OtherSystem: Exit.BAD_SPEC})
@click.argument("lease")
@click.argument("sources", nargs=-1)
@click.option(
    "--at",
    envvar="LEASEHOLD_AT",
    show_envvar=True,
    metavar="MOMENT|PLACE",
    help="With SOURCES, the moment: a tick, a time such as 2031-01-31T12:00Z, or ACTOR:POSITION; default: the end of "
    "the events. Without, where the actors are: a control socket, a configuration, or a folder of sockets; default: "
    "the current folder.",
)
@source_options
@click.option("--all", "whole", is_flag=True, help="The whole story, with what has changed nothing.")
@click.option("--draw", type=click.Path(dir_okay=False, path_type=Path), help="Write a sequence diagram (SVG).")
@json_option
@click.pass_context
def explain(
    ctx: click.Context, lease: str, sources: tuple[str, ...], at: str | None, system: str | None,
    settings: Mapping[str, str], trust: Path | None, unsigned: bool, whole: bool, draw: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Explain why a lease is in its state: what happened, what it waits for, since when, and what will end that.

    Without SOURCES its running actors are asked. With SOURCES their events tell: files that `leasehold
    events --json` has written, stores, or actors, one for each actor of the system; also of leases that
    are over or forgotten, and of any moment (--at). It works for the runs of any system.

    Example:  leasehold explain tenant:1
              leasehold explain tenant:1 tenant.yaml broker.yaml site.yaml
              leasehold explain tenant:1 tenant.jsonl broker.jsonl sqlite:site.db --system site.yaml
              leasehold explain tenant:1 *.jsonl --at site:40 --draw lease.svg
    """
    if not sources:
        for name in ("system", "settings", "trust", "unsigned", "draw"):
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                option = "set" if name == "settings" else name
                raise click.UsageError(f"--{option} is about events; name their SOURCES, or `.` for running actors")
        found = _of_actors(lease, Path(at or "."))
    else:
        if ctx.get_parameter_source("at") is ParameterSource.ENVIRONMENT:
            at = None  # it says where actors are
        found = _of_events(lease, sources, at, system, settings, trust, unsigned, draw)
    story = found.pop("story")
    lines = [*_story(story, whole, as_json), *found.pop("states"), *found["notes"]]
    if as_json:
        print_json({**found, "story": [entry.as_json() for entry in story], "lines": lines})
        return
    for line in lines:
        say(line)


def _story(story: list[StoryEntry], whole: bool, as_json: bool) -> list[str]:
    told = [f"  {line}" for line in story_lines(story, whole or as_json)]
    return ["What happened:", *told, ""] if told else []


def _of_actors(lease: str, place: Path) -> dict[str, Any]:
    """Returns what running actors say."""
    machines, abouts = everywhere(lease, place)
    actors = [
        {"name": a["name"], "now": a["now"], "tick_seconds": a["tick_seconds"], "position": None, "tick": None,
         "time": None, "first": None}
        for a in abouts
    ]  # fmt: skip
    for machine in machines:
        machine |= {"came": None, "restarts": None, "forgotten": None}
    return {
        "lease": lease, "told_by": "actors", "at": None, "actors": actors, "machines": machines, "notes": [],
        "story": told_by_actors(machines),
        "states": [line for machine in machines for line in explained(machine, abouts)],
    }  # fmt: skip


def _of_events(
    lease: str, sources: tuple[str, ...], at: str | None, system: str | None, settings: Mapping[str, str],
    trust: Path | None, unsigned: bool, draw: Path | None,
) -> dict[str, Any]:  # fmt: skip
    """Returns what events say."""
    stretch = stretch_at(at, system, settings, sources, trust, unsigned)
    model, chains = stretch.played.model, stretch.chains
    explainer = Explainer(model)
    try:
        told = explainer.explain(chains, lease, at)
    except UnknownLease as unknown:
        if at is not None and not unknown.known:
            raise click.UsageError(str(unknown)) from None
        some = ", ".join(unknown.known[:LISTED]) + (", ..." if len(unknown.known) > LISTED else "")
        otherwise = f"they tell of {some}" if some else "they tell of none"
        no_such(str(unknown), lease, unknown.known, otherwise)
    if draw is not None:
        with writing(draw):
            draw.write_text(path_svg(path_of(model, told.events, told.lease), lease), encoding="utf-8")
    states = [line for machine in told.machines for line in explained(machine, told.abouts)]
    if at is not None:
        states = [_moment(told), *states]
    return {
        "lease": lease, "told_by": "events", "at": at, "actors": told.abouts, "machines": told.machines,
        "notes": _notes(told, trust is not None), "story": list(told.story), "states": states,
    }  # fmt: skip


def _moment(told: ExplainedLease) -> str:
    last = max(about["time"] for about in told.abouts)
    when = datetime.fromtimestamp(last, UTC).strftime("%Y-%m-%d %H:%M:%S")
    cut = ", ".join(f"{about['name']}:{about['position']}" for about in told.abouts)
    return f"At tick {told.now}; the last event before was at {when} UTC (the cut is {cut}):"


def _notes(told: ExplainedLease, signatures: bool) -> list[str]:
    """Returns notes on where the account comes from, and on what is not known."""
    last = max((about["tick"] for about in told.abouts), default=told.now)
    notes = [f"The events end at tick {last}; what has happened since is not known."] if told.now > last else []
    notes += [f"The events of {about['name']} before {about['first']} are not here." for about in told.abouts
              if about["first"] > 1]  # fmt: skip
    known = {about["name"] for about in told.abouts}
    peers = {peer for machine in told.machines for peer in machine["peers"].values() if peer}
    notes += [f"The events of {peer} are not here, so what it has done is not known." for peer in sorted(peers - known)]
    notes += [f"{fault}." for fault in told.faults]
    if not signatures:
        notes.append("No signature was checked; --trust names the keys.")
    return notes
