"""`leasehold migrate` in words: what was mapped, what was in the way, and what its options are about."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from leasehold.cli.common import Exit
from leasehold.cli.migrate import _refuse, _say_error, _told, migrate
from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.migrate.mapping import Problem
from leasehold.impl.migrate.migration import MigrationError, Summary
from leasehold.impl.migrate.schema import RecordSchema
from leasehold.impl.store.url import store_from_url
from tests.systems import files_of, load, write

AFTER = RecordSchema.of(compile_system(load("two_phase_commit", {"participants": 3})))
BEFORE = structs.replace(AFTER, digest="ab" * 32, constants={**AFTER.constants, "participants": 2})
SUMMARY = Summary(
    BEFORE,
    AFTER,
    4,
    False,
    Counter({"b": 1_200, "a": 2}),
    Counter({("b", "x", "y"): 3, ("a", "o", "p"): 1_000}),
    Counter({"b": 1, "a": 2_000}),
    needed=True,
    ruled=True,
)
FROM = f"from   two_phase_commit {'ab' * 6} with participants=2"
TO = f"to     two_phase_commit {AFTER.digest[:12]} with participants=3"
COUNTS = [
    "1,202 records: 2 of a, 1,200 of b",
    "1,000 of a from o to p",
    "3 of b from x to y",
    "2,000 of a given up",
    "1 of b given up",
]


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, [FROM, TO, *COUNTS, "written, in epoch 4"]),
        ({"ruled": False}, [FROM, f"{TO}, without rules: none were needed", *COUNTS, "written, in epoch 4"]),
        ({"dry_run": True}, [FROM, TO, *COUNTS, "nothing was written: this was a dry run"]),
        (
            {"moved": Counter(), "forgotten": Counter(), "records": Counter({"a": 1})},
            [FROM, TO, "1 records: 1 of a", "written, in epoch 4"],
        ),
        ({"before": None}, ["There are no records, so there is nothing to migrate."]),
        (
            {"needed": False},
            [f"All records are of two_phase_commit {AFTER.digest[:12]} already, with these constants."],
        ),
    ],
    ids=["all", "without rules", "dry run", "few", "none", "not needed"],
)
def test_a_migration_is_told_by_its_numbers(changes: dict[str, Any], lines: list[str]) -> None:
    assert list(_told(replace(SUMMARY, **changes))) == lines


PROBLEMS = (Problem("a:1", "clerk", "n", "it is too large"), Problem("a:2", "clerk", "", "it is unknown"))


@pytest.mark.parametrize(("total", "more"), [(2, []), (3, ["and 1 more"]), (1_502, ["and 1,500 more"])])
def test_what_is_in_the_way_is_told_and_counted(
    total: int, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    error = MigrationError("2 records do not fit", PROBLEMS, total)
    _refuse(error, as_json=False)
    told = capsys.readouterr()
    lines = ["a:1 clerk, n: it is too large", "a:2 clerk: it is unknown", *more, "leasehold: 2 records do not fit"]
    assert (told.out, told.err.splitlines()) == ("", lines)
    _refuse(error, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "error": "2 records do not fit",
        "problems_total": total,
        "problems": [
            {"lease": "a:1", "machine": "clerk", "field": "n", "what": "it is too large"},
            {"lease": "a:2", "machine": "clerk", "field": "", "what": "it is unknown"},
        ],
    }


def test_a_store_that_cannot_be_read_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _say_error("it is locked", as_json=False)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "leasehold: it is locked\n")
    _say_error("it is locked", as_json=True)
    assert json.loads(capsys.readouterr().out) == {"error": "it is locked", "problems": [], "problems_total": 0}


def migrated(*words: str) -> Result:
    return CliRunner().invoke(migrate, list(words))


COUNTER = files_of("cli/systems/counter")


def test_records_are_mapped_once_and_not_by_a_dry_run(tmp_path: Path) -> None:
    system = write(tmp_path / "counter", COUNTER)

    async def story() -> None:
        program = compile_system(load(system))
        async with SystemCluster(program, store=lambda name: store_from_url(f"sqlite:{tmp_path / name}.db")) as c:
            await c.actors["a"].begin("a:1", "a", "go", {}, {})

    asyncio.run(story())
    store, more = f"sqlite:{tmp_path}/a.db", (str(system), "--set", "most=3")
    for _ in range(2):
        dry = migrated(store, *more, "--dry-run")
        assert dry.exit_code == Exit.HOLDS, dry.output
        lines = dry.output.splitlines()
        assert (lines[0].startswith("from   counter "), lines[0].endswith(" with most=2")) == (True, True)
        assert lines[2:] == ["1 records: 1 of a", "nothing was written: this was a dry run"]
    named = json.loads(migrated(store, *more, "--dry-run", "--json", "--actor", "a").output)
    assert (named["needed"], named["dry_run"], named["to"]["constants"]) == (True, True, {"most": 3})
    nobody = migrated(store, *more, "--actor", "nobody")
    assert (nobody.exit_code, "nobody" in nobody.output) == (Exit.BAD_SPEC, True)
    older = migrated(store, *more, "--dry-run", "--from", str(system), "--from-set", "most=2")
    assert older.exit_code == Exit.HOLDS, older.output
    done = migrated(store, *more)
    assert (done.exit_code, ", in epoch " in done.output) == (Exit.HOLDS, True), done.output
    again = migrated(store, *more)
    assert again.output.splitlines()[0].endswith("already, with these constants.")
    fewer = {**COUNTER, "roles/a.yaml": COUNTER["roles/a.yaml"].replace("busy", "late")}
    refused = migrated(store, str(write(tmp_path / "fewer", fewer)))
    assert (refused.exit_code, "a:1 a, state: " in refused.output) == (Exit.VIOLATED, True), refused.output
    missing = migrated(f"sqlite:{tmp_path}/none.db", *more, "--json")
    assert (missing.exit_code, json.loads(missing.output)["problems"]) == (Exit.BAD_SPEC, [])
    usage = migrated(store, str(system), "--from-set", "most=1")
    assert (usage.exit_code, "--from-set is about the specification of --from" in usage.output) == (2, True)
