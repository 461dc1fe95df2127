"""The exported TLA+ modules, held by golden files.

``python tests/checker/export/test_tla.py`` rewrites them; read the difference before you keep it. TLC has explored each
golden module and found what STATES says, which is also what the explorer counts. Of the lease's properties, TLC has not
read the nine from `a_request_is_given_up_at_its_end` to `a_lease_is_kept_to_its_end`, those that ask what is accepted
or ignored, `requests_are_kept_as_made`, and `failed_means_broken_off`, `the_end_is_obeyed` and `requests_are_whole` as
they stand now.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.export import ExportError, ExportOptions, export_system
from leasehold.spec import shipped_folder
from tests.systems import TRUTH, load

GOLDEN = Path(__file__).with_name("golden")
SYSTEMS: dict[str, tuple[Path, dict[str, Any]]] = {
    "two_phase": (TRUTH / "two_phase", {}),
    "alternating_bit": (TRUTH / "alternating_bit", {}),
    "two_phase_commit": (shipped_folder("two_phase_commit"), {"participants": 2}),
    "lease": (shipped_folder("lease"), {"max_units": 1, "last_end": 2}),
}
STATES = {
    "two_phase": (288, 1146),
    "alternating_bit": (240, 1392),
    "two_phase_commit": (194, 466),
    "lease": (3965, 14238),
}


def files(name: str) -> dict[Path, str]:
    folder, settings = SYSTEMS[name]
    made = export_system(load(folder, settings), "tla", ExportOptions(Path(f"{name}.tla")))
    return {GOLDEN / f"{name}.tla": made.text, GOLDEN / f"{name}.cfg": made.settings}


@pytest.mark.parametrize("name", SYSTEMS)
def test_modules_are_as_they_were_checked(name: str) -> None:
    for file, text in files(name).items():
        assert file.read_text() == text, f"{file.name} differs; see the head of this file"


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_explorer_counts_what_tlc_counted(name: str) -> None:
    folder, settings = SYSTEMS[name]
    found = explore(load(folder, settings))
    assert (found.distinct, found.generated) == STATES[name]


def test_faults_that_need_numbers_are_refused() -> None:
    with pytest.raises(ExportError, match=r"system.yaml:\d+:\d+: channel to_broker has faults.*export to Promela"):
        export_system(load(shipped_folder("lease"), {"duplicates": 1}), "tla")


def test_what_tla_cannot_say_is_named() -> None:
    made = export_system(load(shipped_folder("two_phase_commit")), "tla")
    assert [left.name for left in made.left_out] == ["guards_disjoint"]
    for left in made.left_out:
        assert f"\\*     {left.name}: " in made.text


if __name__ == "__main__":
    for each in SYSTEMS:
        for path, words in files(each).items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(words)
