"""`leasehold prove`: what holds of every run of a system, for all values and without bounds."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leasehold.checker.explore import Progress
from leasehold.checker.explore.resources import memory_for_a_search
from leasehold.checker.host.deadline import ended_at
from leasehold.checker.host.verdicts import keep_verdicts
from leasehold.checker.prove import (
    LIMIT_SECONDS,
    Certificate,
    ClaimVerdict,
    FaultScope,
    NoSuchNumbers,
    Proof,
    Setting,
    Unencodable,
    Unproved,
    known_sizes,
    lemmas_yaml,
    limit_memory,
    stopped_by_signals,
    store,
    stored,
)
from leasehold.checker.prove import prove as prove_all
from leasehold.cli.common import (
    Exit,
    FiniteRange,
    console,
    interruptible,
    no_such,
    print_json,
    system_options,
    verb,
    warn_of_values,
    writing,
)
from leasehold.cli.progress import Status
from leasehold.cli.search import SearchProgress, memory_option, time_option
from leasehold.impl.words import counted
from leasehold.reports import terminal
from leasehold.reports.commands import replay_command
from leasehold.reports.json_report import path_json, picked, plain
from leasehold.spec import System, load
from leasehold.spec.language.check.unbounded import growing
from leasehold.spec.language.types import Value

LAST_SECONDS = 10.0  # after its time; a process that is still at work then is ended from outside


@verb()
@system_options
@click.option(
    "--instances", metavar="ROLE=N", multiple=True, help="Fix how many machines a role has; the others have any number."
)
@click.option("--no-faults", is_flag=True, help="Prove it without faults, except those that channels declare.")
@click.option(
    "--limit",
    metavar="SECONDS",
    type=FiniteRange(min=0.1),
    default=LIMIT_SECONDS,
    show_default=True,
    help="Work of one query to the solver, and of k-induction for one property: a million units of z3's rlimit a "
    "second, about a second of an idle processor. --time bounds the wall time of the whole run.",
)
@memory_option
@time_option
@click.option("--jobs", metavar="N", type=click.IntRange(min=1), help="Processes; default: one for each processor.")
@click.option("--no-search", is_flag=True, help="Induction alone: search neither for counterexamples nor for lemmas.")
@click.option(
    "--certificate",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the proof as SMT-LIB, for another solver to check, and its index to FILE.json.",
)
@click.option("--fresh", is_flag=True, help="Prove it anew, also where a proof of all of it is kept.")
@click.option("--brief", is_flag=True, help="Print paths with one line for each step.")
def prove(
    system: str,
    settings: Mapping[str, str],
    as_json: bool,
    instances: tuple[str, ...],
    no_faults: bool,
    limit: float,
    memory: int | None,
    seconds: float | None,
    jobs: int | None,
    no_search: bool,
    certificate: Path | None,
    fresh: bool,
    brief: bool,
) -> Exit:
    """Prove the properties of SYSTEM about states and steps.

    Numbers and times have no bounds, constants and the number of machines are any, and so are the numbers of
    crashes, losses, duplicates and overtakings; a constant that --set gives has this value alone. Where the properties
    alone are not inductive, lemmas.yaml beside them strengthens them; lemmas are proved together with the properties,
    and nothing is assumed.

    For properties that are not inductive, the prover searches small settings for a run that violates them; then it
    tries k-induction and lemmas from explored states. Lemmas that prove something are printed, for you to keep.
    A proof of all properties and lemmas is kept, and shown when the same is asked again; --fresh proves it anew, and so
    do --certificate, --instances, --set and --no-faults. What is not decided within --time has the reason `time`. A
    property whose `when` is never true is proved, but vacuous.

    Exit codes: 0, all is proved; 1, a run contradicts a property or a lemma; 3, some property or lemma is undecided.

    Example:  leasehold prove lease
              leasehold prove two_phase_commit --instances participant=3 --json
              leasehold prove lease --set lazy_close=false
    """
    began = time.perf_counter()
    model = load(system, settings)
    warn_of_values(model)
    # Constants that bound have one value in a proof.
    few = {name: value for name, value in model.faults.settings.items() if name not in model.bounding}
    small = None if no_search else load(system, {**few, **settings})
    runs = [] if no_search else [run for run in model.expectations if not run.slow]
    cases = [load(system, {**{n: str(v) for n, v in run.settings.items()}, **settings}) for run in runs]
    if certificate is not None and not certificate.absolute().parent.is_dir():
        raise click.UsageError(f"cannot write to {certificate}: there is no such folder")
    sizes = _sizes(model, instances, settings)
    scope = FaultScope(crash=False, network=False) if no_faults else None
    values = {name: model.constants[name].value for name in settings}
    setting = Setting(sizes, scope, limit, values=values, memory=memory)
    whole = not (fresh or setting.sizes or setting.values or no_faults or certificate)
    proof = kept_proof(model) if whole else None
    if proof is None:
        end = None if seconds is None else began + seconds
        if (most := memory or memory_for_a_search()) is not None:
            limit_memory(most, jobs)
        with ended_at(None if end is None else end + LAST_SECONDS, _say_late, Exit.UNDECIDED):
            proof = _proved(model, setting if end is None else replace(setting, until=end), small, jobs, cases)
    options = [*(f"--instances {one}" for one in instances), *(["--no-faults"] if no_faults else [])]
    if not proof.interrupted:
        keep_verdicts(system, model, "prove", {v.name: v.verdict for v in proof.verdicts}, options)
    if certificate is not None and proof.induction is not None:
        with interruptible(), stopped_by_signals():
            _write(certificate, Certificate(proof.strengthened or model, setting, proof.induction))
    if as_json:
        print_json(_json(proof, setting.values))
    else:
        _print(console(), proof, brief, partial(replay_command, small or model, system))
        if certificate is not None:
            console().print(f"wrote {certificate} and {_index(certificate)}", markup=False, soft_wrap=True)
            assert proof.induction is not None
            others = [v.name for v in proof.of("proved") if v.name not in proof.induction.proved]
            if others:
                console().print(f"not in it, as they were proved otherwise: {', '.join(others)}", soft_wrap=True)
    if proof.interrupted and not proof.of("counterexample"):
        click.echo(
            "interrupted: what was proved so far is above; nothing of it is kept, and the same begins anew", err=True
        )
        return Exit.INTERRUPTED
    return Exit.HOLDS if proof.holds else Exit.VIOLATED if proof.of("counterexample") else Exit.UNDECIDED


def _say_late() -> None:
    click.echo("leasehold: the solver did not end with its time, so all of it was ended; nothing is decided", err=True)


def _proved(model: System, setting: Setting, small: System | None, jobs: int | None, cases: Sequence[System]) -> Proof:
    """A proof that is made now, and kept."""
    try:
        with interruptible(), stopped_by_signals(), Status("encoding") as status:
            shown = ProofProgress(status)
            proof = prove_all(
                model,
                setting,
                jobs=jobs,
                watch=shown.steps,
                progress=shown.search,
                tell=shown.tell,
                small=small,
                cases=cases,
            )
    except Unencodable as error:
        raise click.UsageError(f"{model.name} has no encoding for the solver: {error}") from error
    if not proof.interrupted:
        store(proof, setting)
    return proof


def _index(file: Path) -> Path:
    """Returns where the index of a certificate stands."""
    return file.with_name(f"{file.name}.json")


def _write(file: Path, certificate: Certificate) -> None:
    try:
        conditions = []
        with writing(file), file.open("w", encoding="utf-8") as out, Status("certificate") as status:
            out.write(certificate.header)
            for number, condition in enumerate(certificate.conditions(), 1):
                out.write(condition.text(number))
                status.show("certificate", f"{number:,} of {certificate.found.steps + 1:,} conditions")
                conditions.append(replace(condition, script=""))
        with writing(_index(file)):
            _index(file).write_text(json.dumps(certificate.index(conditions), indent=1) + "\n", encoding="utf-8")
    except Unproved as error:
        file.unlink(missing_ok=True)
        click.echo(f"no certificate: {error}; try again with a larger --limit", err=True)
        sys.exit(Exit.UNDECIDED)


def _sizes(model: System, arguments: tuple[str, ...], settings: Mapping[str, str]) -> dict[str, int]:
    """The numbers of machines that --instances fixes, and those that constants count which --set gives."""
    names = [role.name for role in model.roles.values() if role.indexed]
    sizes = {}
    for word in arguments:
        name, equals, number = word.partition("=")
        if not equals or not number.isascii() or not number.isdigit() or not int(number):
            raise click.UsageError(f"--instances takes ROLE=N, not {word[:60]!r}")
        if name not in names:
            wrong = f"--instances: {model.name} has no role {name[:60]!r} with instances"
            no_such(wrong, name, names, f"roles with instances: {', '.join(names) or 'none'}")
        sizes[name] = int(number)
    for type_ in model.counted():
        if type_.counted_by in settings and sizes.setdefault(type_.name, type_.count) != type_.count:
            both = f"--instances {type_.name}={sizes[type_.name]} and --set {type_.counted_by}={type_.count}"
            raise click.UsageError(f"{both} contradict each other; leave one of them out")
    try:
        return known_sizes(model, sizes)
    except NoSuchNumbers as error:
        raise click.UsageError(f"--instances: {error}") from error


def kept_proof(model: System) -> Proof | None:
    """The proof of all properties and lemmas that was kept, if there is one."""
    kept = stored(model)
    return kept.proof(model) if kept is not None and kept.whole else None


class ProofProgress:
    """Says how far a proof has come."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._strategy: tuple[str, ...] = ()
        self._search = SearchProgress(status)

    def steps(self, asked: int, of: int, left: int) -> None:
        """Steps that induction has asked the solver about, and claims that none of them has contradicted."""
        self._status.show(*self._strategy, f"{asked:,} of {of:,} steps", f"{left:,} claims hold so far")

    def tell(self, strategy: str) -> None:
        """The strategy beyond induction."""
        self._strategy = (strategy,)
        self._status.show(strategy)

    def search(self, p: Progress) -> None:
        """Shows how far exploring a small setting has come."""
        self._search.more = self._strategy
        self._search(p)


def _json(proof: Proof, values: Mapping[str, Value]) -> dict[str, Any]:
    verdicts = Counter(v.verdict for v in proof.properties)
    return {
        "system": proof.system.name,
        "spec_digest": proof.system.digest,
        "instances": "any" if proof.any_number else "as set",
        "set": values,
        "for": proof.for_what,
        "faults": proof.scope.words,
        "assumptions": plain(proof.assumptions),
        "kept": proof.kept or None,
        "properties": [_verdict_json(v) for v in proof.properties],
        "lemmas": [_verdict_json(v) for v in proof.lemma_verdicts],
        "not_asked": proof.others,
        "vacuity_unknown": proof.vacuity_open,
        "guards_unknown": proof.guards_open,
        "guards": [picked(g, "kind where words witness certain") for g in proof.guards],
        "proved": verdicts["proved"],
        "undecided": verdicts["undecided"],
        "counterexamples": verdicts["counterexample"],
        **picked(proof, "helpers steps questions explored"),
        "unbounded": growing(proof.system),
        "found_lemmas": {c.name: {"when": c.when, "always": c.always} for c in proof.lemmas},
        "seconds": round(proof.seconds, 3),
    }


def _verdict_json(v: ClaimVerdict) -> dict[str, Any]:
    fields = picked(v, "name kind verdict method") | {"seconds": round(v.seconds, 3)}
    if v.vacuous:
        fields["vacuous"] = v.vacuous
    if v.reason:
        fields["reason"] = v.reason
    if v.fixed:
        fields["proved_for"] = v.fixed
    if v.cti is not None:
        fields["counterexample_to_induction"] = v.cti.words
        fields["constants"] = v.cti.system.values()
    if v.path is not None:
        fields |= {"faults": v.faults, "path": path_json(v.path)}
    return fields


def _print(screen: Console, proof: Proof, brief: bool, replay: Callable[..., str]) -> None:
    system = proof.system
    screen.print(f"[bold]{system.name}[/]  spec {system.digest[:12]}", soft_wrap=True)
    screen.print(f"for {proof.for_what}", markup=False, soft_wrap=True)
    for line in proof.assumptions.lines if proof.assumptions is not None else ():
        screen.print(line, markup=False, soft_wrap=True, style="dim")
    if proof.kept:
        screen.print(f"proved on {proof.kept} and kept; --fresh proves it anew", markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("property", "kind", "verdict", "by", ""):
        table.add_column(name, overflow="fold")
    colours = {"proved": "green", "counterexample": "red", "undecided": "yellow"}
    narrow = "" if proof.scope.crash else "without crashes"
    for v in proof.properties:
        note = f"{len(v.path)} steps" if v.path is not None else v.vacuous or v.reason
        note = note or (narrow if v.verdict == "proved" else "")
        word = "[yellow]proved, but vacuous[/]" if v.vacuous else f"[{colours[v.verdict]}]{v.verdict}[/]"
        table.add_row(v.name, v.kind, word, v.method, escape(note))
    screen.print(table)
    lemmas = proof.lemma_verdicts
    missing = [v for v in lemmas if v.verdict != "proved"]
    screen.print(
        f"with {counted(len(lemmas), 'lemma')} of lemmas.yaml ({len(lemmas) - len(missing)} of them hold) and "
        f"{proof.helpers:,} that are there by themselves",
        soft_wrap=True,
    )
    for v in missing:
        outcome = "[red]false[/]: a run violates it" if v.path is not None else f"not proved: {escape(v.reason)}"
        screen.print(f"lemma {v.name} is {outcome}", soft_wrap=True)
    for g in proof.guards:
        values = ", ".join(f"{name}={value}" for name, value in g.witness.items())
        sure = "" if g.certain else " (the solver cannot say)"
        screen.print(
            f"[yellow]{g.kind}[/] {escape(g.where)}: {escape(g.words)}{sure}" + (f", as {values}" if values else "")
        )
    for name in growing(system):
        screen.print(f"nothing bounds {name}; exploring it has no end", style="dim", markup=False, soft_wrap=True)
    if proof.guards_open:
        screen.print("guards: the time ended before all were checked", style="dim", soft_wrap=True)
    if proof.others:
        screen.print(f"for the explorer alone: {', '.join(proof.others)}", style="dim", soft_wrap=True)
    if proof.vacuity_open:
        names = ", ".join(proof.vacuity_open)
        screen.print(f"not known whether they are vacuous: {names}", style="dim", markup=False, soft_wrap=True)
    screen.print(f"{proof.steps:,} steps, {proof.questions:,} questions, {proof.seconds:,.1f} s", style="dim")
    if proof.lemmas:
        screen.print("\nlemmas that were found; lemmas.yaml would keep them:", soft_wrap=True)
        for line in lemmas_yaml(proof.lemmas).splitlines():
            screen.print(line, markup=False, highlight=False, soft_wrap=True)
    for v in proof.of("undecided"):
        if v.cti is not None:
            name = f"{'lemma ' * (v.kind == 'lemma')}[yellow]{v.name}[/]"
            screen.print(f"\n{name} is not inductive; a counterexample to induction:", soft_wrap=True)
            for line in v.cti.words:
                screen.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    for v in proof.of("counterexample"):
        if v.path is not None:
            screen.print(f"\n[red]{v.name}[/] is contradicted" + (f" with {v.faults}" if v.faults else ""))
            terminal.path(screen, v.path, brief)
            options = ["--faults", v.faults] if v.faults else []
            if v.kind == "lemma":
                continue  # `explore` knows the properties alone
            screen.print(f"replay it:  {replay(v.name, options=options)}", markup=False, soft_wrap=True)
