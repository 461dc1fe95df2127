"""Several machines of one actor: what recovery drives is done, and what each of them has heard."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import prove
from leasehold.faults.model import Budget
from leasehold.spec import SpecError
from tests.checker.prove.claimed import claimed
from tests.systems import load

# Where it holds, it is proved for any number of machines, with crashes and losses; where not, exploring shows it.
TRUE = {
    "what is driven is done": "all(not running(a) or a.state == x or c[index(a)].state == c1 for a in p)",
    "who has not spoken was heard": "all(a.state != x or heard(there, a) for a in p)",
    "who is done was heard": "all(a.state != z or heard(there, a) for a in p)",
    "the other end": "all(heard(there, a) == heard(there, h[index(a)]) for a in p)",
    "all have heard all": "heard(there) == all(heard(there, a) for a in p)",
}
FALSE = {
    "what is driven is done at once": "all(a.state == x or c[index(a)].state == c1 for a in p)",
    "who speaks was heard": "all(heard(there, a) for a in p)",
    "one is heard as another": "all(heard(there, a) == heard(there, b) for a in p for b in p)",
    "who was heard has heard": "all(not heard(there, a) or heard(back, a) for a in p)",
}


def explored(folder: Path) -> set[str]:
    found = explore(load(folder), budget=Budget.parse("crash=1"))
    assert found.complete
    return {p.verdict for p in found.properties if p.name == "claim"}


@pytest.mark.long
@pytest.mark.parametrize("about", TRUE)
def test_what_holds_of_each_is_proved(about: str, tmp_path: Path) -> None:
    folder = claimed(tmp_path, "several", TRUE[about])
    assert explored(folder) == {"exhausted"}
    found = prove(load(folder), jobs=1)
    assert {v.name: v.verdict for v in found.verdicts}["claim"] == "proved"
    assert {*found.any_number} == {"p", "c", "h"}


@pytest.mark.long
@pytest.mark.parametrize("about", FALSE)
def test_what_is_false_of_one_is_not_proved(about: str, tmp_path: Path) -> None:
    folder = claimed(tmp_path, "several", FALSE[about])
    assert explored(folder) == {"violated"}
    found = prove(load(folder), jobs=1)
    assert {v.name: v.verdict for v in found.verdicts}["claim"] == "undecided"


def test_a_machine_is_an_end_of_its_channel(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the channel `there` neither begins nor ends at `c\\[0\\]`"):
        load(claimed(tmp_path, "several", "heard(there, c[0])"))
