"""Print docs/reference/command_line.md: ``python tests/cli/reference.py``. Verbs speak for themselves."""

import sys
from collections.abc import Iterator, Mapping

import click

from leasehold.cli.common import Exit, VerbGroup
from leasehold.cli.main import cli

INTRODUCTION = """\
# The command line

`leasehold VERB`. SYSTEM is the name of a system that comes with Leasehold (`lease`, `two_phase_commit`,
`three_phase_commit`, `three_phase_commit_termination`, `contention`, `delegation`, `group`,
`grace_period`) or a folder that holds `system.yaml`; where both exist, write `./lease` for the folder.

Results go to the standard output, what is wrong with a specification or command to the standard error (with `--json`,
and for `lint`, to the standard output as well). On a terminal a line says how far a search has come. Into a file or a
pipe go no colours, lines are not cut, and progress is a line a minute on the standard error. `NO_COLOR=1` turns the
colours off.
"""

OUTLINE = """\
## JSON

`explore --json` and `check --json` print one object:
"""

KEYS = {
    "system": "the system's name",
    "spec_digest": "SHA-256 of what was read: equal for equal specifications, but for comments and layout",
    "constants": "the constants' values by name",
    "product_states": "how many combinations of control states there are",
    "product_reachable": "how many of them were reached",
    "distinct": "distinct states within the bounds",
    "generated": "initial states, and all steps that were found",
    "edges": "steps between states within the bounds",
    "depth": "steps to the farthest state",
    "initial": "initial states",
    "cut": "steps that left the bounds",
    "engine": "which engine explored",
    "engine_reason": "why this one",
    "complete": "whether all was visited",
    "why_incomplete": "why not, or empty",
    "holds": "whether nothing is violated",
    "seconds": "how long it took",
    "states_per_second": "distinct states by seconds",
    "peak_memory_bytes": "the most memory that the process has held",
    "properties": "the verdicts, see below",
    "unvisited_transitions": "transitions that were never taken, as `role/state#event`; null if it was cut short",
    "vacuous": "properties without a case, and ends that were never met; null likewise",
    "explained": "what `expected.yaml` says of this setting: `violated` and `untested`, each a reason by name",
    "product_machines": "the machines of the product, in the order of a cell's `control`",
    "cells": "reachable cells: `control`, `states` in it, `depth`, `mark` (legal, recovery, reachable)",
}
FAIRNESS_KEYS = {"fairness": "none, weak or strong; the key is not there under `spec`"}
CHECKPOINT_KEYS = {"checkpoint": "the file from which --resume goes on; the key is not there where none was left"}
FAULT_KEYS = {
    "faults": "the budget of faults",
    "convergence": "`legal_states`, `recovery_states`, `other_ends`, `converges`, and where runs have a common bound "
    "`worst_steps` and `worst_exchanges`; null where the search was cut short",
    "why_not_asked": "why it is not checked whether the system stabilises, such as `interrupted`; empty where it is",
    "without_effect": "faults of the budget that can strike nothing in this system, each with the reason",
}
SYMMETRY_KEYS = {
    "symmetry": "`groups`: roles whose instances change places, those that do so together in one list; `orbits`, and "
    "the `states` that they stand for, null where it was not used; `why_not`: sentences about what it was not used "
    "for. With orbits, the other numbers are of one state for each",
}
CRASH_KEYS = {
    "system": "the system's name",
    "spec_digest": "SHA-256 of what was read",
    "constants": "the constants' values by name",
    "faults": "the budget of faults, see [faults](faults.md)",
    "distinct": "distinct states under faults",
    "generated": "initial states, and all steps that were found",
    "crash_points": "how many points of the catalogue were tried; null where the search was cut short",
    "crash_points_total": "how many there are",
    "crash_points_not_met": "those at which nothing stopped, each with `name` and `reason` (null where nothing "
    "explains it); null where the search was cut short",
    "scenarios": "how many cases were tried: a cell of the product, a crash point, and a mode; null likewise",
    "legal_states": "states that are reachable without faults too; null where it was not checked",
    "recovery_states": "the others, likewise",
    "other_ends": "of the recovery states, those that count as returned, because no step has to happen there and an "
    "end of the system holds; null where it was not checked",
    "converges": "whether every fair run returns once faults stop; null where it was not checked, as the search was "
    "cut short, or somebody may never come back",
    "worst_steps": "the most steps that takes; null where that was not found",
    "worst_exchanges": "the most messages that are received on the way, or null",
    "worst_case": "the case with the longest way back, counted from the restart: `case`, `point`, `mode`, "
    "`worst_steps`, `worst_exchanges`, `returns`; null where it was not checked",
    "worst_path": "a path that ends with the longest way back of all, or, where it does not converge, one that never "
    "comes back; null where it was not checked",
    "not_legal": "where it does not converge, what differs between the state that such a run does not leave and the "
    "nearest legal state, each with `what` (a machine, a datum, a channel, `now`), `here` and `legal`; else empty",
    "never_reached": "how many cells of the product were not reached; null where the search was cut short",
    "complete": "whether all was visited",
    "why_incomplete": "why not, or empty",
    "holds": "whether no property breaks, and it was not found not to converge",
    "seconds": "how long all of it took",
    "peak_memory_bytes": "the most memory that the process has held",
    "properties": "the verdicts, see below",
}
CRASH_CELL_KEYS = {
    "product_machines": "the machines of the product, in the order of a cell's `control`",
    "cells": "the cells that were reached: `control`, `legal`, `crash_points`, `cases` by mode, `worst_steps`, "
    "`worst_exchanges`, `returns` (whether every fair run comes back)",
}
CHECK_CRASH_KEYS = {
    "differences": "of `crash` within `check`: crash points that are neither met nor explained, each with `what`, "
    "`expected`, `found` and `explain_under`",
}
DEEP_KEYS = {
    "budgets": "where several budgets are explored, with `crash deep` or on the way to the system's own: each with "
    "`faults`, `states` (null: it follows from the last and was not explored), `seconds`, `verdict` and `complete`; "
    "what stands beside it is of the last that was complete"
}
CASE_KEYS = {
    "case": "the control states of the product",
    "point": "the crash point",
    "mode": "what holds when the actor restarts",
    "worst_steps": "the most steps back to a legal state; null where that was not found",
    "worst_exchanges": "the most messages that are received on the way, or null",
    "returns": "whether every fair run returns; null where it was not checked",
    "path": "a path of the case that takes the most steps back, or that never returns",
}
POINTS_KEYS = {
    "system": "the system's name",
    "spec_digest": "SHA-256 of what was read",
    "crash_points": "the points: `name`, `role`, `state`, the tasks `done` before, and the `effects`: points of the "
    "model that stand for it",
}
CHECK_KEYS = {
    "setting": "the run of `expected.yaml` that has these constants, or null",
    "warnings": "diagnostics that are no errors",
    "differences": (
        "each with `what`, `expected`, `found` and `explain_under`: the key of expected.yaml or crash.yaml that takes "
        "an explanation, where only that is missing"
    ),
    "as_expected": "whether there is none; those of `crash` are told there",
    "not_missed": "what no property would miss: `data` and `fields` of messages that no property reads, nor what they "
    "influence, each with its `name` and the fields of messages that it is `told_in`; `transitions` that change "
    "nothing that one reads; and `mutants`, null until `mutate` was run: how many transitions it `tried`, and by "
    "transition the mutants that were `not_found`",
    "why_not_run": "the diagnostics that say why no actor can play its machines, as `leasehold compile` prints them; "
    "empty where they can",
    "crash": "what `crash` finds with the budget `check` of `faults` in system.yaml, without cells; see below; or null",
}
WRITE_KEYS = {"renewed": "with `--write`: the lines of the difference in expected.yaml"}
ALL_KEYS = {"runs": "with `--all`: the same object for each setting; what stands beside it is of the first"}
PROPERTY_KEYS = {
    "name": "its name; `deadlock_free`, `types_hold` and `guards_disjoint` are the language's own",
    "kind": "its claim (always, step, sometimes, leads_to, ...), or deadlock, range or guards",
    "verdict": "exhausted, witnessed, violated, bounded or unasked",
    "doc": "what it says, in words",
    "source": "where it comes from",
    "reason": "why it is violated or bounded, where there is more to say",
    "binding": "the values of its variables for which it is violated, or witnessed last, where it has some",
    "failed": "the parts of a violated claim that are false at the end of the path, where it has several",
    "path": "the counterexample or witness, where there is one",
}
PATH_KEYS = {
    "initial": "the first state, whole: `control`, `data`, `channels`, `now`",
    "steps": "the steps, each with what it changed",
    "loop": "the index of the step, from 0, that an endless run returns to; null for a path that ends",
    "final": "the last state, whole",
}
STEP_KEYS = {
    "title": "the step in words",
    "kind": "deliver, duplicate, local, tick, clock, lose, crash, recover, halt, retry, partition, heal, skew or drift",
    "machine": "the machine that took it; null for the clock",
    "event": "what it consumed",
    "fields": "the event's fields, as the language writes them",
    "sender": "who sent the message, or null",
    "transition": "the transition taken, or null: the event was ignored, or refused",
    "before": "the machine's control state before it",
    "after": "and after it",
    "sent": "messages that it sent: `message`, `sender`, `receiver`, `fields`",
    "driven": "subsidiary machines that it moved: `machine`, `event`, `before`, `after`",
    "data": "fields of records that it changed, and their new values",
    "now": "the clock after it, or null",
    "channels": "where it changed them: all that is then on its way",
}
DIAGNOSTIC_KEYS = {
    "code": "such as LH401, see [diagnostics.md](diagnostics.md)",
    "title": "what the code stands for",
    "severity": "error or warning",
    "file": "the file, as the system was named; `<settings>` for what was given at the call",
    "line": "from 1",
    "column": "from 1",
    "what": "what is wrong",
    "near": "the near miss, quoted, or null",
    "remedy": "what to do, or null",
}
ERROR_KEYS = {"errors": "how many of them are errors", "diagnostics": "the findings"}
FIX_KEYS = {
    "changes": "the difference, line by line, as `diff -u` writes it",
    "by_hand": "fixes that the layout of a file does not take, in words",
}
EXPORT_KEYS = {
    "system": "the system's name",
    "spec_digest": "SHA-256 of what was read",
    "constants": "the constants' values by name",
    "to": "the format",
    "files": "the files that were written",
    "not_exported": "properties that the model does not have, each with the reason",
    "model": "the model, without `--out`",
    "settings": "TLC's settings, without `--out`; or null",
}
REPORT_KEYS = {
    "files": "the files that were written",
    "notes": "what could not be made, such as pictures without Graphviz",
    "holds": "whether nothing is violated",
}
MUTATE_KEYS = {
    "system": "the system's name",
    "spec_digest": "SHA-256 of what was read",
    "mutants": "how many were decided",
    "killed": "how many of them were killed",
    "score": "killed by those that are not refused, equivalent or unseen, from 0 to 1",
    "refused": "by mutant: the error for which it is no specification",
    "equivalent": "mutants with the states and steps of the system in every trial",
    "unseen": "mutants that nobody outside can tell from the system in any trial",
    "survivors": "the others that were not killed, see below",
    "out_of_date": "explanations of `mutation.yaml` of which nothing survives",
    "undecided": "mutants that Ctrl-C left undecided",
    "seconds": "how long it took",
    "by_rule": "by rule: `mutants`, `killed` and `score`, and how many are `refused`, `equivalent` and `unseen`",
    "by_property": "by property: how many it was the first to find",
    "kills": "those that were killed, see below",
}
SURVIVOR_KEYS = {
    "name": "the mutant: the rule, what is changed, and the change or the part that is changed",
    "rule": "the rule that made it, as `--rule` takes it",
    "place": "file and line of what is changed",
    "what": "the change in words",
    "explanation": "why it survives, from `mutation.yaml`, or null",
    "noticed": "the witness that is lost, or `vacuous: NAME` for a property that has lost its cases; or null",
    "cut_short": "whether it had far more states than the system in some trial, and was not explored further",
    "seen": "the difference that an observer sees, see below; null where the search for one was cut short",
}
SEEN_KEYS = {
    "setting": "the constants of the trial, where they are not the declared ones",
    "faults": "the budget of faults of the trial, or null",
    "before": "what is seen of both until they differ, a line for each step",
    "system": "the next step of the system; empty where it has none of that cause",
    "mutant": "the next step of the mutant; empty where it has none of that cause",
}
KILL_KEYS = {
    "name": "the mutant",
    "property": "what found it: a property, or `convergence`",
    "setting": "the constants of the trial, where they are not the declared ones",
    "faults": "the budget of faults of the trial, or null",
    "steps": "the length of the counterexample, or null where there is none",
}

PUBLIC_KEY_KEYS = {
    "public_key": "the public key, `ed25519:` and 43 characters",
    "fingerprint": "32 hexadecimal digits that stand for it",
}
DEMO_KEYS = {
    "leases": "how many were asked for",
    "extensions": "how often the term of one of them became longer",
    "closes": "how many are over everywhere",
    "crashes": "how often an actor died",
    "crashes_of": "the same by actor",
    "violations": "what was seen that must not be, in sentences; empty where all is well",
    "seconds": "how long it took",
    "seed": "with which it can be repeated, but for the moments at which processes run",
}
DEMO_CRASH_KEYS = {
    "verifier": "what the verifier that has followed the actors has found: `violations`, `faults`, `events`, `cuts`, "
    "`runs`, `properties`, `findings` (of `conform`), and its `lag` at the end and at most",
}
DEMO_PARTITION_KEYS = {
    "partitions": "how many there were",
    "guests_at_once": "units on which a guest was seen at one moment, at most",
}
LOSSES_KEYS = {
    "lost": "how many units were killed",
    "repaired": "how many of them were set up again",
    "replaced": "how many others took the place of one",
    "let_go": "how many were needed no more: their lease is over or smaller, or may have no other unit",
    "told": "how many of those repaired or replaced their holder has heard of",
    "worst_seconds": "until a unit was repaired or replaced and its holder told, at most",
    "leaked": "processes that were left of units",
    "starts_at_once": "units that were being started at one moment, at most",
}
LEASES_KEYS = {
    "now": "the clock, in ticks",
    "tick_seconds": "the length of a tick",
    "leases": "the machines, see below",
}
MACHINE_KEYS = {
    "lease": "the lease's name",
    "actor": "whose machine it is",
    "machine": "which machine: `service_manager`, `broker`, `authority`",
    "state": "its control state",
    "since": "the tick at which it came there",
    "over": "whether it is at its end, and will be forgotten",
    "asks": "the calls of its state to policies and handlers: `task`, what it calls (`call`), and the state epoch that "
    "began it (`epoch`)",
    "data": "the fields of its record, by name",
    "times": "which of them are times",
}
CLIENT_KEYS = {"client": "the client that has demanded it; empty: the operator has, or nobody"}
CLIENTS_KEYS = {
    "actor": "whose client it is",
    "client": "its name",
    "may": "what it may do: `view`, `demand`, `operate`; none where the file has it no more, and it has leases",
    "leases": "the leases that it has",
    "leases_most": "its quota of these, or null",
    "unit_ticks": "what is charged in the period of now, or null where it has no quota of that",
    "unit_ticks_most": "its quota in each period, or null",
    "per": "the length of a period in ticks, or null",
}
SHOWN_KEYS = {
    **CLIENT_KEYS,
    "shown": "the fields of its record, as the language writes them; of a map, cells that are as at first are counted",
    "peers": "who plays its neighbours",
    "wish": "what a client wants of it, or null",
    "undecided": "what its policy waits for before it decides, `words`, and `until` which tick at most, or null; null "
    "where it does not say",
    "units": "its units: `unit`, `machine`, `state`, `since`, `facts`, `handlers`, and what is `left` of it after its "
    "last teardown",
    "messages": "what it has to say: `message`, `number`, `to`, `times`, `taken`, `reason`, `again_seconds`",
    "refused": "the message of its state that a peer has refused, and why; or null",
    "handlers": "its handler calls that are under way",
}
EXPLAINED_KEYS = {
    "doc": "what the specification says of its state; of its units likewise, and so the next two",
    "leaves": "how its state is left: `event`, `from`, `to`; its `cause`, as [events](events.md) name it, with the "
    "`task` that it ends; of a timer, when it is `due`, or null where it waits for more than time",
    "history": "its last steps: `at` (tick) and `time` (seconds since 1970), and `transition`, `from`, `to`, or "
    "`failure`, `words`, or `refused`, `words` and how many `times`; of a transition that time has taken `unanswered`: "
    "what its state had asked of neighbours, `message` and `to`",
    "came": "the entry of the story that led to the state, or null where no event has it",
    "restarts": "how often its actor has restarted since",
    "forgotten": "the tick at which it was forgotten, or null",
}
EXPLAIN_KEYS = {
    "lease": "the lease, or run",
    "told_by": "`events`, or `actors`: their events, with what they add of now",
    "at": "the moment, as it was asked for; or null",
    "actors": "who has told it: `name`, `now` (the tick of the moment), `tick_seconds`; of events the `position`, "
    "`tick` and `time` of the last one, and the position of the `first` that was read, or null where there are none",
    "machines": "the machines of the lease, as `show` has them, with the keys below",
    "story": "what happened, in an order that respects causality: [entries](explain.md#json)",
    "notes": "from where it is known, and what is not",
    "lines": "all of that in words",
}
REPLAY_KEYS = {
    "case": "`log` or `counterexample`",
    "steps": "how many steps it has",
    "same": "of a log: how many the actors have taken as it says",
    "differs": "of a log: whether they differ from it; then `at` and `tick`, the event of the log, `why` they cannot "
    "take it, and by key the `difference`, with `log` and `actors`",
    "property": "of a counterexample: what it breaks",
    "reproduced": "of a counterexample: whether the actors have taken its steps, with its records, and broken it",
    "unplayed": "of a counterexample: why it cannot be played",
    "findings": "of a counterexample: where the actors do not follow it",
    "broken": "of a counterexample: the properties that do not hold on the actors' records",
    "reported": "of a counterexample: the properties that `verify` reports of their events",
    "not_asked": "of a counterexample: why `verify` cannot tell of the property",
}
UNITS_KEYS = {
    "now": "the clock, in ticks",
    "tick_seconds": "the length of a tick",
    "units": "the units, see below",
}
UNIT_KEYS = {
    "unit": "its persistent name",
    "shown": "the fields of its record, as the language writes them; of a map, cells that are as at first are counted",
    "facts": "what its handler has said of it",
    "left": "what lives of it after its last teardown, as its handler says",
    "history": "what has happened to it last, as the last 20,000 events of its actor tell: `at`, `time`, and "
    "`transition`, `from`, `to`, or `failure`, `words`, or `refused`, `words`, `times`",
}
MIGRATE_KEYS = {
    "system": "the system's name",
    "from": "the specification that the records were of: `digest`, `constants`; or null where there are none",
    "to": "the new one, likewise",
    "needed": "whether anything had to be mapped",
    "ruled": "whether migrations.yaml has rules for it",
    "dry_run": "whether nothing was written",
    "epoch": "the actor's incarnation that mapped them",
    "records": "how many there are, by role",
    "moved": "states that have another name: `role`, `from`, `to`, `records`",
    "forgotten": "machines that were dropped by a rule, by role",
}
TRUST_KEYS = {"trust": "the file of the trust set", "actors": "who is trusted, by name, see below"}
TRUST_CHANGE_KEYS = {
    "trust": "the file of the trust set",
    "changed": "whether the command has changed it",
    "actor": "the actor as it is now, see below; null where it was removed",
}
ACTOR_KEYS = {
    "name": "by which all know it",
    "role": "the role that it may speak for",
    "address": "where messages for it go, or null",
    "keys": "its keys, the newest last",
}
ACTOR_KEY_KEYS = {
    **PUBLIC_KEY_KEYS,
    "not_after": "until when it counts, such as 2031-01-31T00:00:00Z, or null",
    "revoked": "whether it was revoked",
    "state": "counts, over or revoked",
}


def table(keys: Mapping[str, str]) -> Iterator[str]:
    yield "| key | what it is |"
    yield "|---|---|"
    for key, words in keys.items():
        yield f"| `{key}` | {words} |"
    yield ""


def helps(group: VerbGroup, context: click.Context) -> Iterator[str]:
    """The help of each verb of a group, and of theirs."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(
            command,
            info_name=name,
            parent=context,
            max_content_width=100,
            terminal_width=100,
            help_option_names=["-h", "--help"],
        )
        yield f"## {inner.command_path}"
        yield ""
        yield "```text"
        yield command.get_help(inner)
        yield "```"
        yield ""
        if isinstance(command, VerbGroup):
            yield from helps(command, inner)


def page() -> Iterator[str]:
    yield INTRODUCTION
    yield "## Exit codes"
    yield ""
    yield "| exit code | what it says |"
    yield "|---|---|"
    yield from (f"| {code.value} | {code.meaning} |" for code in Exit)
    yield ""
    yield from helps(cli, click.Context(cli, info_name="leasehold"))
    yield OUTLINE
    yield from table(KEYS)
    yield "`explore --fairness` adds:"
    yield ""
    yield from table(FAIRNESS_KEYS)
    yield "Where the search left off:"
    yield ""
    yield from table(CHECKPOINT_KEYS)
    yield "`explore --faults` adds:"
    yield ""
    yield from table(FAULT_KEYS)
    yield "`explore --symmetry` adds:"
    yield ""
    yield from table(SYMMETRY_KEYS)
    yield "`check` adds:"
    yield ""
    yield from table({**CHECK_KEYS, **ALL_KEYS, **WRITE_KEYS})
    yield "A property has:"
    yield ""
    yield from table(PROPERTY_KEYS)
    yield "A path has:"
    yield ""
    yield from table(PATH_KEYS)
    yield "A step has:"
    yield ""
    yield from table(STEP_KEYS)
    yield "`crash --json`:"
    yield ""
    yield from table({**CRASH_KEYS, **CRASH_CELL_KEYS, **DEEP_KEYS, **CHECK_CRASH_KEYS})
    yield "There a property also has `weakest`, the weakest budget of faults that breaks it, or null; and a path only"
    yield "where it is violated: under that budget, where there is one. `crash case --json`:"
    yield ""
    yield from table(CASE_KEYS)
    yield "`crash points --json`:"
    yield ""
    yield from table(POINTS_KEYS)
    yield "`lint --json`, and every verb with `--json` when the specification is wrong:"
    yield ""
    yield from table(ERROR_KEYS)
    yield "`lint --fix --json` and `lint --diff --json` have besides:"
    yield ""
    yield from table(FIX_KEYS)
    yield "A diagnostic has:"
    yield ""
    yield from table(DIAGNOSTIC_KEYS)
    yield "`mutate --json`:"
    yield ""
    yield from table(MUTATE_KEYS)
    yield "A survivor has:"
    yield ""
    yield from table(SURVIVOR_KEYS)
    yield "What an observer sees has:"
    yield ""
    yield from table(SEEN_KEYS)
    yield "A kill has:"
    yield ""
    yield from table(KILL_KEYS)
    yield "`keygen --json` and `key --json`:"
    yield ""
    yield from table(PUBLIC_KEY_KEYS)
    yield "`trust --json`:"
    yield ""
    yield from table(TRUST_KEYS)
    yield "The verbs that change a trust set, with `--json`:"
    yield ""
    yield from table(TRUST_CHANGE_KEYS)
    yield "An actor has:"
    yield ""
    yield from table(ACTOR_KEYS)
    yield "A key of an actor has:"
    yield ""
    yield from table(ACTOR_KEY_KEYS)
    yield "`demo --json`:"
    yield ""
    yield from table(DEMO_KEYS)
    yield "With `--crash`, besides:"
    yield ""
    yield from table(DEMO_CRASH_KEYS)
    yield "With `--partition`, besides:"
    yield ""
    yield from table(DEMO_PARTITION_KEYS)
    yield "With `--lose-units` or `--reboot`, besides:"
    yield ""
    yield from table(LOSSES_KEYS)
    yield "`leases --json`:"
    yield ""
    yield from table(LEASES_KEYS)
    yield "A machine has:"
    yield ""
    yield from table(MACHINE_KEYS)
    yield "A machine of `leases` has besides:"
    yield ""
    yield from table(CLIENT_KEYS)
    yield "`show --json` has `lease`, `now` and `machines`; there a machine has besides:"
    yield ""
    yield from table(SHOWN_KEYS)
    yield "`units --json`:"
    yield ""
    yield from table(UNITS_KEYS)
    yield "A unit has the keys of a machine, `lease` of which is the one that had it last, and:"
    yield ""
    yield from table(UNIT_KEYS)
    yield "`clients --json` has `clients`, each with:"
    yield ""
    yield from table(CLIENTS_KEYS)
    yield "`tell --json` has `lease` or `unit`, `machine`, `kind`, `transition` and `reason`."
    yield "`explain --json`:"
    yield ""
    yield from table(EXPLAIN_KEYS)
    yield "A machine has besides:"
    yield ""
    yield from table(EXPLAINED_KEYS)
    yield "`demand --json`, `extend --json` and `close --json` have `lease`; `recover --json` has"
    yield "`recovered`, with `actor` and `machine`. `migrate --json`:"
    yield ""
    yield from table(MIGRATE_KEYS)
    yield "Where the records do not fit it has `error`, `problems` and `problems_total` instead."
    yield ""
    yield "`events --json` prints lines, each of which is JSON: [events](events.md) has their form."
    yield ""
    yield "`replay --json` has `cases`, each with:"
    yield ""
    yield from table(REPLAY_KEYS)
    yield "`export --json`:"
    yield ""
    yield from table(EXPORT_KEYS)
    yield "`report --json`:"
    yield ""
    yield from list(table(REPORT_KEYS))[:-1]


if __name__ == "__main__":
    sys.stdout.write("\n".join(page()) + "\n")
