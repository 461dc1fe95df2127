"""`leasehold demo --partition`: nobody uses what is another's while two actors do not hear each other."""

from __future__ import annotations

from pathlib import Path

import pytest

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
