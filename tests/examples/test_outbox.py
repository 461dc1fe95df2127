"""The outbox: an effect outside is in the model, so that doing it twice is found; real actors recover in each case."""

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.faults.model import Budget
from leasehold.spec import load
from tests.cli.conftest import command
from tests.systems import edited, written

OUTBOX = Path(__file__).parents[2] / "examples" / "outbox"


def test_a_provider_that_does_not_know_its_keys_charges_twice(tmp_path: Path) -> None:
    """After one crash; the one of the example does not."""
    files = {str(path.relative_to(OUTBOX)): path.read_text() for path in OUTBOX.rglob("*.yaml")}
    files.pop("lemmas.yaml")
    careless = edited(
        files,
        (
            "on: {paid: {to: charged}}\n    ignore:\n      charge: the provider knows the order by its key\n  charged",
            "on: {charge: {stay: true, set: {charges: charges + 1}}, paid: {to: charged}}\n  charged",
        ),
    )
    for system, verdict in ((load(OUTBOX), "exhausted"), (written(tmp_path / "careless", careless), "violated")):
        found = {p.name: p for p in explore(system, budget=Budget(crash=1)).properties}
        assert found["never_twice"].verdict == verdict
    assert found["never_twice"].path is not None
    assert any(step.kind == "crash" for step in found["never_twice"].path.steps)


@pytest.mark.long
def test_machines_below_that_were_never_driven_are_there_after_a_crash(tmp_path: Path) -> None:
    done = command("crash", "real", str(OUTBOX), cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "0 failed" in done.stdout
