"""Mutants that contention shares with the lease: the lease's properties find what contention does not speak of."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from leasehold.checker.mutation.battery import SystemLoader, battery_of
from leasehold.checker.mutation.mutate import mutate
from leasehold.checker.mutation.operators import Mutation, mutations
from leasehold.cli.main import cli
from tests.systems import load

SAMPLE = 6


def by_name(system: str) -> dict[str, Mutation]:
    return {mutation.name: mutation for mutation in mutations(load(system), True)}


@pytest.mark.long
def test_the_lease_s_properties_find_what_contention_s_leave() -> None:
    """A few of them. What has the lease's states and steps, or is no specification, differs nowhere."""
    lease, contention = by_name("lease"), by_name("contention")
    shared = sorted(lease.keys() & contention.keys())
    assert len(shared) > len(contention) / 2
    some = [lease[name] for name in Random(5).sample(shared, SAMPLE)]
    loader = SystemLoader("lease")
    report = mutate(loader, some, battery_of(loader), jobs=1)
    assert not report.unexplained
    assert {one.word for one in report.outcomes} >= {"killed"}


@pytest.mark.slow
def test_every_survivor_of_contention_is_explained(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["mutate", "contention", "--sample", "12", "--seed", "5", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["undecided"]) == (0, 0)
