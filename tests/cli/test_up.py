"""`leasehold up`: the actors of any system as processes (the page of the guide runs it whole)."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.cli.main import cli
from leasehold.impl.fleet import FleetError, SystemFleet
from leasehold.impl.server.config import read


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing_there"], "nothing_there"),
        (["two_phase_commit", "--set", "participants=0"], "participants"),
        (["two_phase_commit", "--tick", "0"], "--tick"),
        (["lease"], "lease has units (unit), which need an inventory"),
    ],
)
def test_what_cannot_be_started_is_told(words: list[str], told: str) -> None:
    done = CliRunner().invoke(cli, ["up", *words])
    assert done.exit_code == 2
    assert told in done.output


def test_an_actor_plays_one_role(tmp_path: Path) -> None:
    players = {"coordinator": "all", "participant[0]": "all"}
    with pytest.raises(FleetError, match="all would play coordinator and participant, and a process plays one role"):
        SystemFleet("two_phase_commit", tmp_path, {"participants": 1}, players=players)


def test_each_actor_gets_a_configuration(tmp_path: Path) -> None:
    fleet = SystemFleet("two_phase_commit", tmp_path, {"participants": 2}, 0.5)
    fleet.prepare()
    names = ["coordinator", "participant-0", "participant-1"]
    assert sorted(path.stem for path in tmp_path.glob("*.key")) == names
    for name in names:
        config = read(tmp_path / f"{name}.yaml")
        assert (config.name, config.system, config.settings) == (name, "two_phase_commit", {"participants": 2})
        assert config.peers == {
            "coordinator": "coordinator", "participant[0]": "participant-0", "participant[1]": "participant-1",
        }  # fmt: skip
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    SystemFleet("two_phase_commit", tmp_path, {"participants": 2}, 0.5).prepare()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
