"""`leasehold demo --partition`: nobody uses what is another's while two actors do not hear each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.recovery.fleet.links import Links
from leasehold.checker.recovery.processes.proxy import DEAF, OPEN
from leasehold.faults.simulation.partition import ActorPartition
from leasehold.impl.fleet import SystemFleet
from leasehold.impl.identity import trust_file
from tests.cli import reference
from tests.cli.conftest import Run, as_json


@pytest.mark.long
def test_guests_leave_in_time_while_actors_are_parted(run: Run) -> None:
    done = run("demo", "--json", "--partition", "--leases", "4", "--seed", "3")
    found = as_json(done)
    assert found.keys() == reference.DEMO_KEYS.keys() | reference.DEMO_PARTITION_KEYS.keys()
    assert found["partitions"] == 2
    assert found["guests_at_once"] > 0
    assert (found["violations"], done.returncode) == ([], 0)


def test_a_folder_that_was_used_before_has_no_links(run: Run, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used/trust.yaml").write_text("actors: {}\n")
    done = run("demo", "--json", "--partition", "--dir", "used")
    assert done.returncode == 2
    assert "--partition needs a folder that was not used before" in done.stderr


def test_each_link_is_cut_by_itself(tmp_path: Path) -> None:
    fleet = SystemFleet("two_phase_commit", tmp_path, {"participants": 2})
    links = Links(fleet)
    try:
        names = list(fleet.roles)
        assert set(links.proxies) == {(a, b) for a in names for b in names if a != b}
        for sender, file in fleet.trusts.items():
            known = trust_file.change(tmp_path / file, lambda trust: trust)
            assert f"trust: {file}" in (tmp_path / f"{sender}.yaml").read_text()
            for receiver in names:
                port = links.proxies[sender, receiver].port if receiver != sender else None
                assert port is None or known.find(receiver).address == f"http://127.0.0.1:{port}"
        one, other = names[:2]
        heal = links.part(ActorPartition(one, other, both=False))
        assert {link for link, proxy in links.proxies.items() if proxy.mode == DEAF} == {(one, other)}
        heal_both = links.part(ActorPartition(one, other))
        heal_both()
        assert {link for link, proxy in links.proxies.items() if proxy.mode == DEAF} == {(one, other)}
        heal_both = links.part(ActorPartition(one, other))
        heal()
        cut = {link for link, proxy in links.proxies.items() if proxy.mode == DEAF}
        assert cut == {(one, other), (other, one)}  # of two that overlap, the first one's end opens nothing
        heal_both()
        assert {proxy.mode for proxy in links.proxies.values()} == {OPEN}
    finally:
        links.close()
