"""`leasehold explain`: why a lease is where it is, from its running actors or from their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from leasehold.checker.explain.explanation import ExplainedLease, Explainer, UnknownLease, abouts_of, history_of
from leasehold.checker.explain.views import EventViews, OtherSystem
from leasehold.checker.history.moments import NoSuchMoment
from leasehold.checker.verify.result import path_of
from leasehold.cli.client import everywhere, last_events
from leasehold.cli.common import Exit, json_option, no_such, print_json, say, verb, writing
from leasehold.cli.leases import explained
from leasehold.cli.sources import SOURCE_REFUSALS, played_system, source_options, stretch_at
from leasehold.impl.events.event import AnyEvent, read
from leasehold.impl.server.client import Client
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

    Without SOURCES the last events of its running actors tell it, and the actors add the facts of now. With
    SOURCES events alone tell: files that `leasehold events --json` has written, stores, or actors, one for
    each actor of the system; also of leases that are over or forgotten, and of any moment (--at). It works
    for the runs of any system.

    Example:  leasehold explain tenant:1
              leasehold explain tenant:1 tenant.yaml broker.yaml site.yaml
              leasehold explain tenant:1 tenant.jsonl broker.jsonl sqlite:site.db --system site.yaml
              leasehold explain tenant:1 *.jsonl --at site:40 --draw lease.svg
    """
    if not sources:
        for name in ("trust", "unsigned", "draw"):
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{name} is about whole events; name their SOURCES, or `.` for running actors")
        account = _of_actors(lease, Path(at or "."), system, settings, whole)
        told_by, at, notes = "actors", None, _missing(account.abouts)
    else:
        if ctx.get_parameter_source("at") is ParameterSource.ENVIRONMENT:
            at = None  # it says where actors are
        account = _of_events(lease, sources, at, system, settings, trust, unsigned, draw)
        told_by, notes = "events", _notes(account, trust is not None)
    story = [f"  {line}" for line in story_lines(list(account.story), whole or as_json)]
    lines = ["What happened:", *story, ""] if story else []
    lines += [] if at is None else [_moment(account)]
    lines += [line for machine in account.machines for line in explained(machine, account.abouts)]
    lines += notes
    if not as_json:
        for line in lines:
            say(line)
        return
    print_json(
        {
            "lease": lease,
            "told_by": told_by,
            "at": at,
            "actors": account.abouts,
            "machines": account.machines,
            "notes": notes,
            "story": [entry.as_json() for entry in account.story],
            "lines": lines,
        }
    )


def _of_actors(lease: str, place: Path, system: str | None, settings: Mapping[str, str], whole: bool) -> ExplainedLease:
    """Returns what the events of running actors say, with what they add of now."""
    answers = everywhere(lambda client: _present(client, lease, whole), place)
    known, story, _ = history_of({about["name"]: events for (*_, events), about in answers}, lease)
    explainers, machines = dict[str, Explainer](), list[dict[str, Any]]()
    for (socket, present, _), about in answers:
        for line in present["events"]:
            known.take(read(line.encode()))
        actor, agreement = known.actors[about["name"]], about["agreement"]
        actor.position, actor.agreement = present["last"], agreement
        if agreement not in explainers:  # those of one system may have been given other constants
            explainers[agreement] = Explainer(played_system(system, settings, (socket,)).model)
        views = EventViews(explainers[agreement].machines, known, present["now"])
        machines += map(views.at_present, present["machines"])
    abouts = abouts_of(known)
    return ExplainedLease(lease, max(about["now"] for about in abouts), story, machines, abouts, [], {})


def _present(client: Client, lease: str, whole: bool) -> tuple[str, dict[str, Any], list[AnyEvent]]:
    """Returns an actor's socket, what it says of now, and its events up to there."""
    present = client.get("leases", lease, "present")
    return str(client.path), present, [one for one in last_events(client, whole) if one.position <= present["last"]]


def _of_events(
    lease: str,
    sources: tuple[str, ...],
    at: str | None,
    system: str | None,
    settings: Mapping[str, str],
    trust: Path | None,
    unsigned: bool,
    draw: Path | None,
) -> ExplainedLease:
    """Returns what events say."""
    stretch = stretch_at(at, system, settings, sources, trust, unsigned)
    model, chains = stretch.played.model, stretch.chains
    try:
        account = Explainer(model).explain(chains, lease, at)
    except UnknownLease as unknown:
        if at is not None and not unknown.known:
            raise click.UsageError(str(unknown)) from None
        some = ", ".join(unknown.known[:LISTED]) + (", ..." if len(unknown.known) > LISTED else "")
        otherwise = f"they tell of {some}" if some else "they tell of none"
        no_such(str(unknown), lease, unknown.known, otherwise)
    if draw is not None:
        with writing(draw):
            draw.write_text(path_svg(path_of(model, account.events, account.lease), lease), encoding="utf-8")
    return account


def _moment(account: ExplainedLease) -> str:
    last = max(about["time"] for about in account.abouts)
    when = datetime.fromtimestamp(last, UTC).strftime("%Y-%m-%d %H:%M:%S")
    cut = ", ".join(f"{about['name']}:{about['position']}" for about in account.abouts)
    return f"At tick {account.now}; the last event before was at {when} UTC (the cut is {cut}):"


def _notes(account: ExplainedLease, signatures: bool) -> list[str]:
    """Returns notes on where the account comes from, and on what is not known."""
    last = max((about["tick"] for about in account.abouts), default=account.now)
    notes = [f"The events end at tick {last}; what has happened since is not known."] if account.now > last else []
    notes += _missing(account.abouts)
    known = {about["name"] for about in account.abouts}
    peers = {peer for machine in account.machines for peer in machine["peers"].values() if peer}
    notes += [f"The events of {peer} are not here, so what it has done is not known." for peer in sorted(peers - known)]
    notes += [f"{fault}." for fault in account.faults]
    if not signatures:
        notes.append("No signature was checked; --trust names the keys.")
    return notes


def _missing(actors: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns notes on the events before those that were read."""
    first = {one["name"]: one["first"] or 1 for one in actors}
    return [f"The events of {name} before {position} are not here." for name, position in first.items() if position > 1]
