"""`leasehold export`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.cli.main import cli
from tests.systems import load

SMALL = ("two_phase_commit", "--set", "participants=1")


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["export", *words])
    return result.exit_code, result.stdout, result.stderr


def test_a_model_is_printed() -> None:
    code, output, said = run(*SMALL, "--to", "promela")
    assert (code, said) == (0, "")
    assert output.startswith("/*\n * two_phase_commit. ")
    assert "PARTICIPANTS 1" in output


def test_a_module_is_written_with_its_settings_and_named_for_its_file(tmp_path: Path) -> None:
    code, output, said = run(*SMALL, "--to", "tla", "--out", str(tmp_path / "small.tla"))
    assert (code, output.startswith("wrote ")) == (0, True)
    assert said.startswith("not exported: guards_disjoint: ")
    assert " MODULE small " in (tmp_path / "small.tla").read_text()
    assert "SPECIFICATION Spec" in (tmp_path / "small.cfg").read_text()


def test_json_names_what_is_not_exported() -> None:
    code, output, _ = run("lease", "--set", "max_units=1", "--to", "promela", "--json")
    found = json.loads(output)
    assert (code, found["to"], found["files"], found["settings"]) == (0, "promela", [], None)
    assert found["not_exported"]
    assert list(found["not_exported"]) == [
        p.name for p in load("lease").properties.values() if p.kind == "always_possible"
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("lease", "--to", "tla", "--set", "duplicates=1"),
            "lease cannot be exported to tla: lease/system.yaml:51:3: ",
        ),
        ((*SMALL,), "Missing option '--to'"),
        ((*SMALL, "--to", "tla", "--out", "no-name.tla"), "no name of a TLA+ module"),
        ((*SMALL, "--to", "tla", "--out", "name.txt"), "end in .tla"),
        ((*SMALL, "--to", "promela", "--out", "/no/such/folder/model.pml"), "cannot write to"),
    ],
)
def test_what_cannot_be_done_is_2(words: tuple[str, ...], said: str) -> None:
    code, output, error = run(*words)
    assert (code, output) == (2, "")
    assert said in error
