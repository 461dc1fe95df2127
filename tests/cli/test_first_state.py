"""A system without a first state: each verb that needs one says where the mistake is, and says nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import LIGHT, Run
from tests.systems import write

NEVER = "initially: light.pressed > bound\nconstants: {bound: {type: int, value: 2}}\n"
FILES = {
    **LIGHT,
    "system.yaml": LIGHT["system.yaml"] + NEVER,
    "roles/light.yaml": LIGHT["roles/light.yaml"] + "data: {pressed: {type: int, min: 0}}\n",
    "invariants.yaml": "properties: {never: {always: light.state == bright}}\n",
    "log.jsonl": '{"kind":"header","version":1,"actor":"light","after":0}\n',
    "light.yaml": "name: light\nsystem: .\nstore: 'sqlite:light.db'\nlisten: http://127.0.0.1:1\nkey: k\n"
    "trust: t.yaml\n",
}
VERBS = {
    "lint": "lint .",
    "explore": "explore .",
    "check": "check .",
    "crash": "crash . --faults crash=1",
    "recovery": "crash real .",
    "prove": "prove .",
    "compile": "compile .",
    "export": "export . --to tla",
    "report": "report .",
    "mutate": "mutate .",
    "run": "run light --config light.yaml",
    "verify": "verify log.jsonl --system .",
    "conform": "conform log.jsonl --system .",
    "explain": "explain light:1 log.jsonl --system .",
    "replay": "replay log.jsonl --system .",
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_system_without_a_first_state_is_a_mistake_of_its_specification(verb: str, run: Run, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    done = run(*VERBS[verb].split(), cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    said = done.stdout + done.stderr
    assert "system.yaml:4:12: error LH511: no combination of first values is as `initially` says with bound = 2" in said
    assert "remedy: loosen `initially`" in said
    assert not (done.stdout and done.stderr)
    assert "is proved" not in done.stdout


def test_in_json_it_is_a_diagnostic(run: Run, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    done = run("prove", ".", "--json", cwd=tmp_path)
    assert [d["code"] for d in json.loads(done.stdout)["diagnostics"]] == ["LH511"]


def test_with_a_constant_that_allows_one_it_is_a_system(run: Run, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    done = run("explore", ".", "--set", "bound=-1", cwd=tmp_path)
    assert "2 distinct states" in done.stdout
