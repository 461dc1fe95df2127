"""`leasehold replay`: a log, a counterexample or a stored case, played by real actors in simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from leasehold.checker.explain.explanation import frontier_of
from leasehold.checker.history.merge import capacities_of
from leasehold.checker.history.moments import Moments, NoSuchMoment
from leasehold.checker.recovery.campaign import silent
from leasehold.checker.recovery.cases.log_case import PlayedLog, UnplayableLog, log_case
from leasehold.checker.recovery.cases.path_case import CaseError
from leasehold.checker.recovery.cases.played import PlayedCounterexample
from leasehold.checker.recovery.cases.stored import FILES, Played, StoredCase, settings_of, stored_cases
from leasehold.cli.common import Exit, json_option, make_folder, no_such, print_json, say, verb, writing
from leasehold.cli.sources import SOURCE_REFUSALS, source_options, stretch_at
from leasehold.impl.events.event import StepEvent
from leasehold.impl.events.lines import write_lines
from leasehold.impl.words import counted
from leasehold.spec.language.types import show_plain

_REFUSALS = {
    **SOURCE_REFUSALS,
    NoSuchMoment: Exit.BAD_SPEC,
    UnplayableLog: Exit.BAD_SPEC,
    CaseError: Exit.BAD_SPEC,
}
LONGEST = 100  # characters of a value that differs


@verb(refusals=_REFUSALS)
@click.argument("sources", nargs=-1, required=True, metavar="CASE|SOURCES...")
@click.option("--from", "begin", metavar="MOMENT", help="Begin behind this moment: a tick, a time or ACTOR:POSITION.")
@click.option("--until", "end", metavar="MOMENT", help="End with this moment.")
@click.option("--lease", "leases", multiple=True, help="Only this lease; may be given several times.")
@click.option("--property", "wanted", help="Of what `explore --json` has printed, the counterexample to this property.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the case: a file (.yaml, .json).")
@click.option(
    "--events",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the events of the actors that have played it, as `verify` reads them.",
)
@source_options
@json_option
def replay(
    sources: tuple[str, ...],
    begin: str | None,
    end: str | None,
    leases: tuple[str, ...],
    wanted: str | None,
    out: Path | None,
    folder: Path | None,
    system: str | None,
    settings: Mapping[str, str],
    trust: Path | None,
    unsigned: bool,
    as_json: bool,
) -> Exit:
    """Play a log, or a counterexample of the explorer, with real actors in simulation.

    SOURCES are the events of all actors, as for `verify`: the actors get what those of the log have
    consumed, in the same order, and each step is compared with the log; the first difference is
    shown, and gives exit code 1. CASE is a file: what `explore --json` has printed, of which each
    counterexample is played, or a case that --out has written. A counterexample that the actors
    reproduce gives exit code 1.

    Example:  leasehold replay tenant.jsonl broker.jsonl site.jsonl --system site.yaml
              leasehold replay *.jsonl --system site.yaml --from site:40 --out case.yaml
              leasehold replay case.yaml
    """
    cases = stored_cases(Path(sources[0]), wanted, system, settings) if len(sources) == 1 else None
    if cases is None:
        if wanted is not None:
            raise click.UsageError("--property is about what `explore --json` has printed, and this is a log")
        cases = [_of_log(sources, begin, end, leases, system, settings, trust, unsigned)]
    else:
        about = {"--from": begin, "--until": end, "--lease": leases, "--trust": trust, "--unsigned": unsigned}
        for option in (name for name, given in about.items() if given):
            raise click.UsageError(f"{option} is about a log, and {sources[0]} is a case")
    if out is not None:
        _write(cases, out)
    with silent():
        played = [case.play() for case in cases]
    if folder is not None:
        _write_events(played, folder)
    if as_json:
        print_json({"cases": [_json(one) for one in played]})
    else:
        for line in (line for one in played for line in _words(one)):
            say(line)
    if any(one.differs if isinstance(one, PlayedLog) else one.reproduced for one in played):
        return Exit.VIOLATED
    unplayed = any(isinstance(one, PlayedCounterexample) and one.unplayed for one in played)
    return Exit.BAD_SPEC if unplayed else Exit.HOLDS


def _of_log(
    sources: tuple[str, ...],
    begin: str | None,
    end: str | None,
    leases: Sequence[str],
    system: str | None,
    settings: Mapping[str, str],
    trust: Path | None,
    unsigned: bool,
) -> StoredCase:
    """The case of a log."""
    part = stretch_at(begin or end, system, settings, sources, trust, unsigned)
    played, chains = part.played, part.chains
    model = played.model
    moments = Moments(chains, capacities_of(model))
    known = {e.step.serves or e.step.lease for events in chains.values() for e in events if isinstance(e, StepEvent)}
    for lease in leases:
        if lease not in known:
            some = ", ".join(sorted(known)[:5])
            no_such(f"no event tells of {lease[:80]!r}", lease, known, f"they tell of {some}")
    first, last = (None if text is None else frontier_of(moments, text)[0] for text in (begin, end))
    case = log_case(model, played.name, settings_of(model), chains, first, last, leases)
    if not case.steps:
        stretch = "".join(f" {option} {text}" for option, text in (("--from", begin), ("--until", end)) if text)
        raise UnplayableLog(f"no step is there to be played{f' between{stretch}' if stretch else ''}")
    return StoredCase(case, model)


def _write(cases: Sequence[StoredCase], out: Path) -> None:
    if len(cases) > 1:
        raise click.UsageError(f"--out writes one case, and there are {len(cases)}; name one with --property")
    if out.suffix not in FILES:
        raise click.UsageError(f"--out writes {', '.join(FILES)}, not {out.name[:60]}")
    with writing(out):
        out.write_text(cases[0].text(out), encoding="utf-8")


def _write_events(played: Sequence[Played], folder: Path) -> None:
    make_folder(folder)
    for number, one in enumerate(played, 1):
        place = folder if len(played) == 1 else folder / str(number)
        make_folder(place)
        for actor, bodies in one.events.items():
            with writing(place):
                (place / f"{actor}.jsonl").write_bytes(
                    b"".join(b"%b\n" % line for line in write_lines(actor, bodies, 0))
                )


def _json(one: Played) -> dict[str, Any]:
    if isinstance(one, PlayedLog):
        return {
            "case": "log",
            "steps": one.steps,
            "same": one.same,
            "differs": one.differs,
            "at": one.at or None,
            "tick": one.tick if one.at else None,
            "why": one.why,
            "difference": {name: {"log": log, "actors": actors} for name, (log, actors) in one.difference.items()},
        }
    return {
        "case": "counterexample",
        "property": one.name,
        "steps": one.steps,
        "reproduced": one.reproduced,
        "unplayed": one.unplayed,
        "findings": one.findings,
        "broken": sorted(one.broken),
        "reported": sorted(one.reported),
        "not_asked": one.not_asked,
    }


def _words(one: Played) -> list[str]:
    if isinstance(one, PlayedLog):
        if not one.differs:
            return [f"{counted(one.steps, 'step')} of the log, and the actors take each as it says"]
        lines = [f"after {counted(one.same, 'step')} the actors differ from the log at {one.at}, tick {one.tick}"]
        lines += [f"  {one.why}"] if one.why else []
        for name, (log, actors) in one.difference.items():
            lines += [f"  {name}: the log has {_short(log)}", f"  {' ' * len(name)}  the actors {_short(actors)}"]
        return lines
    head = f"{one.name}: "
    if one.unplayed:
        return [f"{head}not played: {one.unplayed}"]
    if not one.reproduced:
        why = one.findings or ["the actors have taken each step, and do not break it"]
        return [f"{head}not reproduced", *(f"  {reason}" for reason in why)]
    steps = counted(one.steps, "step")
    lines = [f"{head}reproduced: the actors have taken {steps}, with the records of the model"]
    if one.not_asked:
        return [*lines, f"  verify cannot tell of it from events: {one.not_asked}"]
    return [*lines, f"  verify {'reports it' if one.name in one.reported else 'does not see it'} from their events"]


def _short(value: Any) -> str:
    text = "nothing" if value is None else show_plain(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
