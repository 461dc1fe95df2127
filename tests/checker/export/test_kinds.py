"""A channel's kind by a constant: models have the kind that the values given choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.export import export_system
from tests.checker.export.test_promela import check, stored
from tests.checker.export.test_tla import assert_same
from tests.checker.export.tlc import verdicts
from tests.systems import TRUTH, load

NETWORKS = {"bag": 404, "fifo": 404, "set": 1261}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.usefixtures("spin")
def test_spin_stores_the_states_of_each_network(network: str, tmp_path: Path) -> None:
    system = load(TRUTH / "abd_register", {"replicas": 2, "network": network})
    assert explore(system).distinct == NETWORKS[network]
    assert stored(check(tmp_path, export_system(system, "promela").text)) == NETWORKS[network]


@pytest.mark.long
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.usefixtures("tlc")
def test_tlc_finds_what_the_explorer_finds_of_each_network(network: str) -> None:
    system = load(TRUTH / "abd_register", {"replicas": 2, "network": network})
    assert_same(explore(system), verdicts(system))
