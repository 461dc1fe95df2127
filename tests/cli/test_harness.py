"""`leasehold harness`: verdicts as text, JSON, a page and files; sequences that are played again; and refusals."""

from __future__ import annotations

import json
import os
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from leasehold.impl.policy.verified import digest_of
from tests.cli.conftest import Run

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("strace") is None, reason="needs root, for worlds of their own, and strace"
)
SCRIPT = """#!/bin/bash
case $LEASEHOLD_VERB in
setup) mkdir {option} "$LEASEHOLD_UNIT" ;;
modify) ;;
teardown) rm -rf "$LEASEHOLD_UNIT" ;;
esac
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A handler whose setup is not idempotent."""
    file = tmp_path / "node.sh"
    file.write_text(SCRIPT.format(option=""))
    file.chmod(0o755)
    return file


@needs_root
@pytest.mark.long
def test_a_failure_is_told_kept_and_played_again(run: Run, script: Path, tmp_path: Path) -> None:
    words = (
        "harness",
        "./node.sh",
        "--units",
        "1",
        "--out",
        "found",
        "--verdicts",
        "verdicts",
        "--report",
        "page.html",
    )
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first.startswith("failed: ./node.sh: not_repeatable (1 sequence")
    assert "    -> 2  setup of unit 0" in lines
    assert any("File exists" in line for line in lines)
    assert "  again: leasehold harness --replay found/node.not_repeatable.yaml" in lines
    (verdict,) = (tmp_path / "verdicts").iterdir()
    assert json.loads(verdict.read_text())["found"] == ["not_repeatable"]
    page = (tmp_path / "page.html").read_text()
    HTMLParser().feed(page)
    assert "failed: ./node.sh: not_repeatable" in page
    assert not [word for word in ("http:", "https:", "<script") if word in page]

    again = run("harness", "--replay", "found/node.not_repeatable.yaml", cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    assert "not_repeatable: setup fails undisturbed" in again.stdout
    script.write_text(SCRIPT.format(option="-p"))
    again = run("harness", "--replay", "found/node.not_repeatable.yaml", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == {"handler": "./node.sh", "changed": True, "findings": []}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found", "node.sh", "page.html", "verdicts"]


@needs_root
def test_a_verdict_is_on_the_handler_of_an_actor_s_configuration(run: Run, script: Path, tmp_path: Path) -> None:
    script.write_text(SCRIPT.format(option="-p"))
    settings = {"name": "command", "directory": "units", **dict.fromkeys(("setup", "teardown"), "./node.sh")}
    (tmp_path / "site.yaml").write_text(json.dumps({"name": "site", "handler": settings}))
    words = ("harness", "site.yaml", "--sequences", "3", "--units", "1", "--verdicts", "verdicts", "--json")
    done = run(*words, "--report", "page.md", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(done.stdout)["handlers"]
    assert (result["verdict"], result["kill_points"]) == ("passed", 0)
    (row,) = [line for line in (tmp_path / "page.md").read_text().splitlines() if line.startswith("| site.yaml")]
    assert row.startswith(f"| site.yaml | passed | 3 | {result['actions']} | 0 | 0 | ")
    assert (result["passed"], result["sequences"], result["verbs"]) == (True, 3, ["setup", "teardown"])
    parts = {"*": ("command", {key: value for key, value in settings.items() if key != "name"})}
    assert result["digest"] == digest_of(parts, tmp_path)
    assert [path.stem for path in (tmp_path / "verdicts").iterdir()] == [result["digest"]]


@needs_root
@pytest.mark.long
@pytest.mark.parametrize("makes", [False, True])
def test_a_handler_that_makes_nothing_that_is_seen_says_so(run: Run, script: Path, tmp_path: Path, makes: bool) -> None:
    script.write_text(SCRIPT.format(option="-p") if makes else "#!/bin/sh\n")
    done = run("harness", "./node.sh", "--sequences", "1", "--units", "1", "--verbs", "setup,teardown", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("a setup makes nothing that is seen from outside" in done.stdout) == (not makes)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a handler, or give --all"),
        (("a.yaml",), "a.yaml: cannot be read"),
        (("none.py",), "there is no file none.py"),
        (("proces",), "there is no handler 'proces'; did you mean process?"),
        (("plain.txt",), "plain.txt is not executable; do `chmod +x plain.txt`"),
        (("process", "--skip", "leaks"), "--skip: there is no kind 'leaks' (there are: fails, "),
        (("process", "--data", "size"), "--data takes NAME=VALUE, not 'size'"),
        (("--replay", "plain.txt"), "plain.txt: it is no sequence of the harness"),
        (("--replay", "none.yaml"), "none.yaml: cannot be read"),
    ],
)
def test_what_cannot_be_tried_is_refused(words: tuple[str, ...], message: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("a text\n")
    done = run("harness", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["plain.txt"]


def test_a_handler_that_cannot_be_made_says_why(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "class Own:\n    act = probe = close = None\n\n    def __init__(self, size): ...\n"
    )
    done = run("harness", "own.py:Own", "--shared", cwd=tmp_path)
    assert done.returncode == 2
    assert "lacks the methods act, probe, close" in done.stdout + done.stderr
