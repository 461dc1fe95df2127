"""The system `group`: what goes wrong where a part of it is left out, by a shortest path, and clocks that differ."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.faults.model import Budget
from leasehold.spec import System, load, shipped_folder

Changes = dict[str, list[tuple[str, str]]]  # by role, the texts that are replaced, and by what
ALONE = {"expected.yaml", "crash.yaml", "mutation.yaml", "lemmas.yaml"}


def changed(tmp_path: Path, changes: Changes, **settings: int) -> System:
    """The system with other texts in the files of its roles."""
    folder = tmp_path / "group"
    shutil.copytree(shipped_folder("group"), folder, ignore=lambda _, names: [n for n in names if n in ALONE])
    for name, texts in changes.items():
        file = folder / "roles" / f"{name}.yaml"
        text = file.read_text()
        for before, after in texts:
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        file.write_text(text)
    return load(folder, {name: str(value) for name, value in settings.items()})


# A first ticket is shown to its site as it comes.
EAGER: Changes = {
    "holder": [
        (
            " and is_last(msg.sender) and now < leave_by(wanted_end)",
            " and now < leave_by(wanted_end)",
        ),
        (
            '        - {stay: true, when: "msg.end >= wanted_end and not is_last(msg.sender)", '
            'set: {held: "held | {msg.sender}"}}\n',
            "",
        ),
        (
            " and is_last(msg.sender) and now >= leave_by(wanted_end)",
            " and now >= leave_by(wanted_end)",
        ),
    ]
}
# A longer term is decided on when all have answered, whatever they said.
HASTY: Changes = {
    "holder": [
        (
            "(msg.sender) and msg.end >= wanted_end and is_last(msg.sender) and now < leave_by(end)",
            "(msg.sender) and now < leave_by(end)",
        ),
        (
            "(msg.sender) and (msg.end < wanted_end or not is_last(msg.sender)) and now",
            "(msg.sender) and false and now",
        ),
    ]
}
TICKETED = [
    "broker[0]: ask(end=2) from holder",
    "broker[0]: granted",
    "broker[1]: ask(end=2) from holder",
    "broker[1]: granted",
    "holder: ticket(end=2) from broker[0]",
    "holder: ticket(end=2) from broker[1]",
]


@pytest.mark.parametrize(
    ("changes", "claim", "titles"),
    [
        pytest.param(
            EAGER,
            "all_or_none",
            [*TICKETED[:2], TICKETED[4], "site[0]: redeem(end=2) from holder"],
            id="a ticket is shown before the others are here",
        ),
        pytest.param(
            EAGER,
            "a_denial_is_heeded",
            [*TICKETED[:3], "broker[1]: denied", TICKETED[4]],
            id="a ticket is shown beside a denial",
        ),
        pytest.param(
            HASTY,
            "all_or_none",
            [
                *TICKETED,
                "holder: extend(end=3)",
                "broker[0]: ask(end=3) from holder",
                "broker[0]: granted",
                "broker[1]: ask(end=3) from holder",
                "broker[1]: denied",
                "holder: ticket(end=3) from broker[0]",
                "holder: ticket(end=2) from broker[1]",
                "site[0]: redeem(end=2) from holder",
                "site[0]: redeem(end=3) from holder",
            ],
            id="a longer ticket is shown without the others",
        ),
    ],
)
def test_each_part_is_needed(tmp_path: Path, changes: Changes, claim: str, titles: list[str]) -> None:
    found = explore(changed(tmp_path, changes))
    (violated,) = [p for p in found.properties if p.name == claim]
    assert violated.verdict == "violated"
    assert violated.path is not None
    assert [step.title for step in violated.path.steps] == ["holder: begin(end=2)", *titles]


def test_units_that_no_clock_frees_stay_promised(tmp_path: Path) -> None:
    """A broker that waits until it is told, and a holder that is gone for good."""
    text = (shipped_folder("group") / "roles" / "broker.yaml").read_text()
    (clock,) = [line for line in text.splitlines(keepends=True) if "the units are free now" in line]
    found = explore(changed(tmp_path, {"broker": [(clock, "")]}, members=1, last_end=2), budget=Budget(halt=1))
    (violated,) = [p for p in found.properties if p.name == "promises_end_by_the_clock"]
    assert violated.verdict == "violated"


LEFT_IN_TIME = """
  units_are_left_in_time:
    step: >
      all(not took(s.tick) or old(s.end) != old(holder.end) or old(holder.state) not in {using, extending}
          for s in site)
"""


@pytest.mark.parametrize(("margin", "late"), [(2, False), (1, True)])
def test_no_site_takes_units_from_a_holder_whose_clock_is_behind_by_less_than_the_margin(
    tmp_path: Path, margin: int, late: bool
) -> None:
    folder = tmp_path / "group"
    shutil.copytree(shipped_folder("group"), folder, ignore=lambda _, names: [n for n in names if n in ALONE])
    claims = folder / "invariants.yaml"
    claims.write_text(claims.read_text().replace("ends:", f"{LEFT_IN_TIME}ends:"))
    found = explore(load(folder, {"members": "1", "clock_margin": str(margin)}), budget=Budget(skew=1))
    violated = {p.name for p in found.properties if p.verdict == "violated" and p.kind != "sometimes"}
    assert violated == ({"units_are_left_in_time"} if late else set())
