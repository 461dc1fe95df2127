"""The properties of broker policies, explored: each right one keeps them, and each wrong one breaks what it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from leasehold.checker.verify.policies import POLICIES, policies
from leasehold.cli.check import check
from leasehold.impl.policy.plugins import BUILT_IN


def runs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((POLICIES / name / "expected.yaml").read_text(encoding="utf-8"))["runs"]
    return found


def cases() -> list[Any]:
    found = []
    for name in policies():
        for run, setting in runs(name).items():
            large = [pytest.mark.long] if setting["distinct"] > 100_000 else []
            found.append(pytest.param(name, setting.get("set", {}), id=f"{name}-{run}", marks=large))
    return found


@pytest.mark.parametrize(("name", "settings"), cases())
def test_each_policy_is_as_expected(name: str, settings: dict[str, Any]) -> None:
    words = [word for constant, value in settings.items() for word in ("--set", f"{constant}={value}".lower())]
    result = CliRunner().invoke(check, [str(POLICIES / name), *words])
    assert result.exit_code == 0, result.output


def test_each_policy_has_properties_and_a_wrong_variant_of_each_kind() -> None:
    assert set(policies()) < set(BUILT_IN["policy"])
    for name in policies():
        claimed = yaml.safe_load((POLICIES / name / "invariants.yaml").read_text(encoding="utf-8"))["properties"]
        broken = {of for setting in runs(name).values() for of in setting.get("violated", {})}
        assert broken
        assert broken <= {*claimed}, f"{name}: {broken}"


def test_what_the_policies_share_is_beside_them() -> None:
    assert {path.name for path in Path(POLICIES).glob("*.yaml")} == {
        "broker.yaml",
        "request.yaml",
        "requests.yaml",
        "watched.yaml",
    }
