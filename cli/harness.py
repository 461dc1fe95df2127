"""`leasehold harness`: handlers, tried with repetitions, crashes and failing tools before they are used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from leasehold.checker.handlers.harness import (
    SECONDS,
    SEQUENCES,
    Options,
    Tried,
    play_again,
    verify_handler,
)
from leasehold.checker.handlers.sequence import FindingKind, read_replay, write_replay
from leasehold.checker.handlers.shipped import shipped_handlers, target_named
from leasehold.cli.common import (
    Exit,
    FiniteRange,
    end_as_interrupted,
    json_option,
    make_folder,
    print_json,
    say,
    verb,
    writing,
)
from leasehold.cli.progress import Status
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.policy.plugins import PluginError
from leasehold.impl.policy.verified import write_verdict
from leasehold.impl.server.config import ConfigError
from leasehold.reports import harness as report_harness

_REFUSALS = dict.fromkeys((HandlerError, PluginError, ConfigError), Exit.BAD_SPEC)


def _values(ctx: click.Context, param: click.Parameter, words: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` words, whose values are YAML."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{param.opts[0]} takes NAME=VALUE, not {word[:60]!r}")
        try:
            values[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise click.UsageError(f"{param.opts[0]}: {value[:60]!r} is no value of YAML") from None
    return values


def _names(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The names in lists with commas, each once."""
    return tuple(dict.fromkeys(name for text in texts for name in text.split(",") if name))


def _kinds(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    names = _names(ctx, param, texts)
    for name in names:
        if name not in list(FindingKind):
            raise click.UsageError(f"--skip: there is no kind {name[:60]!r} (there are: {', '.join(FindingKind)})")
    return names


@verb(refusals=_REFUSALS)
@click.argument("handlers", nargs=-1, metavar="[HANDLER]...")
@click.option("--all", "all_", is_flag=True, help="Try every handler that is shipped, and every driver.")
@click.option(
    "--sequences",
    type=click.IntRange(1),
    default=SEQUENCES,
    show_default=True,
    metavar="N",
    help="Sequences of actions and faults, for each handler.",
)
@click.option(
    "--seconds",
    type=FiniteRange(0, min_open=True),
    default=SECONDS,
    show_default=True,
    help="Most for them, for each.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of what is left to chance.")
@click.option("--units", type=click.IntRange(1, 4), default=2, show_default=True, help="Units at once.")
@click.option("--verbs", multiple=True, callback=_names, metavar="NAME,...", help="The verbs to try; default: its own.")
@click.option("--data", multiple=True, callback=_values, metavar="NAME=VALUE", help="A field of the lease's record.")
@click.option("--property", "properties", multiple=True, callback=_values, metavar="NAME=VALUE", help="Of each unit.")
@click.option("--modified", multiple=True, callback=_values, metavar="NAME=VALUE", help="Of it once it was modified.")
@click.option(
    "--answers", multiple=True, callback=_names, metavar="NAME,...", help="By which a task may end; last: failed."
)
@click.option("--limit", type=FiniteRange(0.1), metavar="SECONDS", help="Of an action; default: 20 times its time.")
@click.option("--skip", multiple=True, callback=_kinds, metavar="KIND,...", help="Kinds of faults not to look for.")
@click.option("--allow", multiple=True, metavar="PATTERN", help="Things that may stay, as in 'process dnsmasq .*'.")
@click.option("--keep-going", is_flag=True, help="Look for further kinds of faults when one is found.")
@click.option(
    "--shared", is_flag=True, help="Do not isolate it in namespaces; a copy of its folder is all that is seen."
)
@click.option(
    "--verdicts",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the verdict there, for actors with `handlers_verified: DIR`.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder for failing sequences; default: the working folder.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page: HTML, or Markdown to a file *.md.",
)
@click.option(
    "--replay",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Play a sequence from a file again, and nothing else.",
)
@json_option
def harness(
    handlers: tuple[str, ...],
    all_: bool,
    sequences: int,
    seconds: float,
    seed: int,
    units: int,
    verbs: tuple[str, ...],
    data: dict[str, Any],
    properties: dict[str, Any],
    modified: dict[str, Any],
    answers: tuple[str, ...],
    limit: float | None,
    skip: tuple[str, ...],
    allow: tuple[str, ...],
    keep_going: bool,
    shared: bool,
    verdicts: Path | None,
    out: Path | None,
    report: Path | None,
    replay: Path | None,
    as_json: bool,
) -> Exit:
    """Verify handlers before they are used: repeat, overtake, kill and starve their actions, and look from outside.

    HANDLER is an executable; a file of Python, perhaps with `:NAME`; a YAML file with a handler or an actor's
    configuration; or a name as there, perhaps with settings (`process,directory=units`). As root, each sequence has
    namespaces and a copy of all files of its own, so that nothing of the machine is touched; else a copy of the
    handler's folder.

    The handler passes if after each action that says done there is what an undisturbed one makes, and after
    a teardown nothing; whatever was killed, failed or came late before, and whatever the handler itself says. The
    shortest sequence that shows a fault goes to a file, which --replay plays again.

    Example:  leasehold harness ./node.sh
              leasehold harness site.yaml --sequences 1000 --verdicts verified
              leasehold harness ./node.sh --property size=4 --modified size=8
              leasehold harness ./volumes.py:Volumes --verbs make --data size=2 --report volumes.html
    """
    end_as_interrupted()
    isolate = False if shared else None
    options = Options(sequences, seconds, seed, units, limit, skip, allow, isolate, keep_going=keep_going)
    if replay is not None:
        return _replay(replay, handlers, options, as_json)
    if bool(handlers) == all_:
        raise click.UsageError("name a handler, or give --all; `leasehold harness --help` has examples")
    asked = {"verbs": verbs, "data": data, "properties": properties, "answers": answers, "modified": modified}
    targets, left_out = [target_named(one, **asked) for one in handlers], []
    if all_:
        for one in shipped_handlers(str(Path.cwd())):
            if one.target is None:
                left_out.append((one.name, one.skipped))
            else:
                targets.append(one.target)
    for folder in filter(None, (verdicts, out)):
        make_folder(folder)
    if report is not None:
        make_folder(report.parent, report)
    results: list[Tried] = []
    with Status("starting") as status:
        for number, target in enumerate(targets, 1):
            name = f"{target.given} ({number} of {len(targets)})" if len(targets) > 1 else target.given
            tried = verify_handler(target, options, lambda *words, name=name: status.show(name, *words))
            results.append(tried)
            if as_json and len(targets) > 1:
                status.say(report_harness.headline(tried))
            if not as_json:
                status.clear()
                for line in report_harness.text(tried, _files(tried, out)):
                    say(line)
            if verdicts is not None and not tried.broken:
                with writing(verdicts):
                    write_verdict(verdicts, tried.verdict)
            if tried.interrupted:
                break
    for name, reason in left_out:
        if not as_json:
            say(f"not tried: {name}: {reason}")
    if as_json:
        for tried in results:
            _files(tried, out)
        skipped = [{"handler": name, "reason": reason} for name, reason in left_out]
        print_json({"handlers": [report_harness.json_of(tried) for tried in results], "not_tried": skipped})
    if report is not None:
        with writing(report):
            written = report_harness.markdown if report.suffix == ".md" else report_harness.page
            report.write_text(written(results, left_out), encoding="utf-8")
    if any(tried.broken for tried in results):
        return Exit.BAD_SPEC
    if any(tried.interrupted for tried in results):
        return Exit.INTERRUPTED
    return Exit.HOLDS if all(tried.passed for tried in results) else Exit.VIOLATED


def _files(tried: Tried, out: Path | None) -> list[str]:
    """Writes the failing sequences of a handler, and returns their files."""
    found = []
    for failure in tried.failures:
        name = Path(tried.target.given.partition(",")[0].partition(".py:")[0]).stem
        path = (out or Path()) / f"{name}.{failure.finding.kind}.yaml"
        with writing(path):
            write_replay(path, tried.replay(failure))
        found.append(str(path))
    return found


def _replay(path: Path, handlers: tuple[str, ...], options: Options, as_json: bool) -> Exit:
    """Plays a sequence from a file; of another handler, where one is named."""
    replay = read_replay(path)
    named = handlers[0] if handlers else replay.handler
    given = {"data": replay.data, "properties": replay.properties, "modified": replay.modified}
    target = target_named(named, verbs=replay.verbs, **given)
    options = Options(
        1, options.seconds, units=replay.units, limit=options.limit, skip=options.skip, isolate=options.isolate
    )
    changed = target.digest != replay.digest
    with Status(f"playing {path}"):
        (played,) = play_again(replay, target, options)
    found = list(played.findings)
    if as_json:
        findings = [{"kind": f.kind, "step": f.step, "words": f.words, "difference": f.difference} for f in found]
        print_json({"handler": target.given, "changed": changed, "findings": findings})
    else:
        for number, step in enumerate(replay.steps, 1):
            say(f"  {number}  {step}")
        for finding in found:
            say(f"{finding.kind}: {finding.words}", style="red")
            for line in finding.difference:
                say(f"  {line}")
            if finding.said:
                say(f"  the handler said: {finding.said}")
        if not found:
            say("nothing was found")
        if changed:
            say("the handler is not the one that the sequence was found with", err=True)
    sys.stdout.flush()
    return Exit.VIOLATED if found else Exit.HOLDS
