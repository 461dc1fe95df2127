"""The demo with its flags: judge, `verify` and `conform` agree; tests/campaigns/demo.py runs all combinations."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.cli.lease.demo import demo
from tests.campaigns.demo import COMBINATIONS, FLAGS, Verdicts, run


def test_every_combination_of_flags_is_in_the_table() -> None:
    assert len(set(COMBINATIONS)) == 16
    assert {flag for option in demo.params if getattr(option, "is_flag", False) for flag in option.opts} == {
        *FLAGS,
        "--json",
        "--kill-each",
    }


@pytest.mark.long
@pytest.mark.parametrize(("flags", "leases"), [(("--crash", "--lose-units"), 2)])
def test_judge_and_verifier_and_conformance_agree(flags: tuple[str, ...], leases: int, tmp_path: Path) -> None:
    assert run(flags, 5, tmp_path, leases) == Verdicts((), (), ())
