"""`leasehold explain`: why a lease is where it is, from its running actors or from their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from leasehold.checker.explain.explanation import ExplainedLease, Explainer, LeaseHistory, UnknownLease, abouts_of
from leasehold.checker.explain.story import StoryEntry
from leasehold.checker.explain.views import OtherSystem
from leasehold.checker.history.chains import read_chain
from leasehold.checker.history.fold import MachineOf
from leasehold.checker.history.moments import NoSuchMoment
from leasehold.checker.verify.drawn import path_of
from leasehold.cli.client import everywhere
from leasehold.cli.common import Exit, json_option, no_such, print_json, say, verb, writing
from leasehold.cli.leases import explained
from leasehold.cli.sources import SOURCE_REFUSALS, source_options, stretch_at
from leasehold.impl.events.event import AnyEvent
from leasehold.impl.server.client import Client
from leasehold.impl.server.event_source import ActorSource
from leasehold.reports.lifelines import path_svg
from leasehold.reports.story import story_lines

LISTED = 5  # leases that are named where one is not found
RECENT = 20_000  # events of a running actor that are read, unless all are asked for


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
    ctx: click.Context,
    lease: str,
    sources: tuple[str, ...],
    at: str | None,
    system: str | None,
    settings: Mapping[str, str],
    trust: Path | None,
    unsigned: bool,
    whole: bool,
    draw: Path | None,
    as_json: bool,
) -> None:
    """Explain why a lease is in its state: what happened, what it waits for, since when, and what will end that.

    Without SOURCES its running actors are asked, and what happened their last events tell. With SOURCES
    events alone tell: files that `leasehold events --json` has written, stores, or actors, one for each
    actor of the system; also of leases that are over or forgotten, and of any moment (--at). It works
    for the runs of any system.

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
        found = _of_actors(lease, Path(at or "."), whole)
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


def _of_actors(lease: str, place: Path, whole: bool) -> dict[str, Any]:
    """Returns what running actors say of now, and what their events tell of before."""
    found = everywhere(lambda client: (client.get("leases", lease), _last_events(client, whole)), place)
    abouts = [about for _, about in found]
    told = LeaseHistory.of({about["name"]: events for (_, events), about in found if events}, lease)
    machines = [machine for (of_actor, _), _ in found for machine in of_actor]
    for machine in machines:
        known = told.known.machines.get(MachineOf(machine["actor"], lease, machine["machine"]))
        came = None if known is None else known.came
        machine["came"] = None if came is None else came.as_json()
        machine |= {"restarts": None if known is None else known.restarts, "forgotten": None}
    last = {one["name"]: one for one in abouts_of(told.known, 0)}
    no_event = dict.fromkeys(("position", "tick", "time", "first"))
    actors = [
        {**no_event, **last.get(about["name"], {}), **{name: about[name] for name in ("name", "now", "tick_seconds")}}
        for about in abouts
    ]
    return {
        "lease": lease,
        "told_by": "actors",
        "at": None,
        "actors": actors,
        "machines": machines,
        "notes": _missing(actors),
        "story": list(told.story),
        "states": [line for machine in machines for line in explained(machine, abouts)],
    }


def _last_events(client: Client, whole: bool) -> list[AnyEvent]:
    """The last events of a running actor, or all that it has."""
    state = client.get("events", "state")
    after = 0 if whole else state["last"] - RECENT
    lines = ActorSource(client).lines(after if after >= state["first"] else 0)
    return read_chain(lines, None, unsigned=True)[1]


def _of_events(
    lease: str,
    sources: tuple[str, ...],
    at: str | None,
    system: str | None,
    settings: Mapping[str, str],
    trust: Path | None,
    unsigned: bool,
    draw: Path | None,
) -> dict[str, Any]:
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
        "lease": lease,
        "told_by": "events",
        "at": at,
        "actors": told.abouts,
        "machines": told.machines,
        "notes": _notes(told, trust is not None),
        "story": list(told.story),
        "states": states,
    }


def _moment(told: ExplainedLease) -> str:
    last = max(about["time"] for about in told.abouts)
    when = datetime.fromtimestamp(last, UTC).strftime("%Y-%m-%d %H:%M:%S")
    cut = ", ".join(f"{about['name']}:{about['position']}" for about in told.abouts)
    return f"At tick {told.now}; the last event before was at {when} UTC (the cut is {cut}):"


def _notes(told: ExplainedLease, signatures: bool) -> list[str]:
    """Returns notes on where the account comes from, and on what is not known."""
    last = max((about["tick"] for about in told.abouts), default=told.now)
    notes = [f"The events end at tick {last}; what has happened since is not known."] if told.now > last else []
    notes += _missing(told.abouts)
    known = {about["name"] for about in told.abouts}
    peers = {peer for machine in told.machines for peer in machine["peers"].values() if peer}
    notes += [f"The events of {peer} are not here, so what it has done is not known." for peer in sorted(peers - known)]
    notes += [f"{fault}." for fault in told.faults]
    if not signatures:
        notes.append("No signature was checked; --trust names the keys.")
    return notes


def _missing(actors: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns notes on the events before those that were read."""
    first = {one["name"]: one["first"] or 1 for one in actors}
    return [f"The events of {name} before {position} are not here." for name, position in first.items() if position > 1]
