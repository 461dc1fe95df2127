"""`leasehold compile`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.cli.main import cli
from leasehold.impl.core.core import Program

BAD = Path(__file__).parents[1] / "bad_specs"


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["compile", *words])
    return result.exit_code, result.output


def test_the_source_is_a_program_that_carries_the_digest() -> None:
    code, source = run("two_phase_commit", "--set", "participants=2")
    assert code == 0
    made: dict[str, object] = {}
    exec(compile(source, "core", "exec"), made)
    program = made["PROGRAM"]
    assert isinstance(program, Program)
    assert program.digest in source
    assert program.constants == {"participants": 2}
    assert len(program.roles["coordinator"].neighbours) == 2


def test_it_is_written_to_a_file_and_counted(tmp_path: Path) -> None:
    code, output = run("lease", "--out", str(tmp_path / "core.py"), "--json")
    found = json.loads(output)
    assert code == 0
    assert found["roles"] == ["service_manager", "broker", "authority", "unit", "guest"]
    assert found["lines"] == (tmp_path / "core.py").read_text().count("\n")


def test_what_cannot_run_is_refused_with_every_reason() -> None:
    code, output = run(str(BAD / "LH801_channel_no_network_keeps"))
    assert code == 2
    assert "LH801" in output
    assert "remedy" in output
    code, output = run(str(BAD / "LH802_reads_another_machine"), "--json")
    assert code == 2
    assert [d["code"] for d in json.loads(output)["diagnostics"]] == ["LH802"]


@pytest.mark.parametrize("where", ["/no/such/folder/core.py", "/"])
def test_a_place_that_cannot_be_written_is_a_usage_error(where: str) -> None:
    code, output = run("two_phase_commit", "--out", where)
    assert code == 2
    assert "cannot write" in output or "is a directory" in output
