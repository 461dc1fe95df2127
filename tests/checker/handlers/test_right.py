"""Handlers that are right pass, however they are disturbed; and nothing outside their worlds changes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import leasehold.checker.handlers.shipped as shipped_module
from leasehold.checker.handlers.harness import Options, verify_handler
from leasehold.checker.handlers.shipped import shipped_handlers, target_named
from leasehold.checker.handlers.target import target_of
from leasehold.impl.policy.plugins import BUILT_IN
from tests.waiting import wait_until

EXAMPLE = Path(shipped_module.__file__).with_name("room.sh")
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("strace") is None, reason="needs root, for worlds of their own, and strace"
)


def test_every_shipped_handler_is_tried_or_has_a_reason(tmp_path: Path) -> None:
    found = shipped_handlers(str(tmp_path))
    assert {one.handler for one in found} == BUILT_IN["handler"].keys()
    for one in found:
        assert (one.target is None) == bool(one.skipped)
        assert "does not say" not in one.skipped, one.skipped
    table = shipped_module.files.table("leasehold.checker.handlers", "shipped.yaml")
    parts = [part for row in table.values() for part in row.get("settings", {}).get("parts", ())]
    untried = {name.removeprefix("driver ") for name in table if name.startswith("driver ")}
    assert {kind for part in parts for kind in part} | untried == BUILT_IN["driver"].keys()


def test_what_is_missing_is_said_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {one.name: one for one in shipped_handlers(str(tmp_path))}
    assert found["command"].skipped == "bash is missing; install bash"
    assert "runc is missing; install runc" in found["composed-server"].skipped
    assert "busybox is missing; install busybox-static" in found["composed-server"].skipped


def test_a_shipped_one_is_named_alone_and_a_file_of_that_name_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = target_named("command")
    assert target.parts["*"][1]["directory"] == "units"
    assert target.folder == str(tmp_path)
    assert target_named("command", data={"size": 2}, verbs=()).data == {"size": 2}
    assert target_named("command", verbs=("setup",)).verbs == ("setup",)
    (tmp_path / "command").write_text("#!/bin/sh\n")
    (tmp_path / "command").chmod(0o755)
    assert target_named("command").parts["*"][1]["setup"] == ["./command", "setup"]


@needs_root
def test_a_handler_that_is_right_passes_and_leaves_no_trace(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    result = verify_handler(target_of(str(tmp_path / EXAMPLE.name)), Options(sequences=8, seconds=200))
    assert result.passed, (result.broken, [str(failure.steps) for failure in result.failures])
    assert result.isolated
    assert result.sequences == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == [EXAMPLE.name]
    assert result.verdict.passed
    assert result.verdict.digest == target_of(str(tmp_path / EXAMPLE.name)).digest


@needs_root
@pytest.mark.long
@pytest.mark.parametrize("name", ["process", "command", "null"])
def test_shipped_handlers_pass(name: str, tmp_path: Path) -> None:
    one = next(one for one in shipped_handlers(str(tmp_path)) if one.name == name)
    assert one.target is not None
    result = verify_handler(one.target, Options(sequences=120, seconds=400, seed=5))
    assert result.passed, (result.broken, [(str(f.steps), f.finding) for f in result.failures])
    assert result.counts["killed"] > 20


@needs_root
@pytest.mark.long
@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_the_web_servers_of_the_example_pass(tmp_path: Path) -> None:
    unit = Path(__file__).parents[3] / "examples/web/unit.py"
    shutil.copy(unit, tmp_path)
    lines = "".join(f"{verb}: [python3, unit.py]\n" for verb in ("setup", "modify", "teardown", "probe"))
    file = tmp_path / "site.yaml"
    file.write_text(f"name: command\ndirectory: locks\nenvironment: {{WEB_DIRECTORY: web}}\n{lines}")
    result = verify_handler(target_of(str(file)), Options(sequences=60, seconds=300, seed=2))
    assert result.passed, (result.broken, [(str(f.steps), f.finding) for f in result.failures])


GUEST = """#!/bin/bash
set -eu
guest=members/${LEASEHOLD_LOCK//\\//_}
case $LEASEHOLD_VERB in
join | modify) mkdir -p members && echo "$LEASEHOLD_LEASE" >"$guest.new" && mv "$guest.new" "$guest" ;;
leave) rm -f "$guest" ;;
esac
"""


@needs_root
@pytest.mark.long
def test_what_a_holder_runs_on_units_is_tried_by_its_verbs(tmp_path: Path) -> None:
    script = tmp_path / "guest.sh"
    script.write_text(GUEST)
    script.chmod(0o755)
    target = target_of(str(script), ("join", "modify", "leave"))
    result = verify_handler(target, Options(sequences=7, seconds=100, units=1))
    assert result.passed, (result.broken, [(str(f.steps), f.finding) for f in result.failures])
    script.write_text(GUEST.replace("rm -f", "true"))
    target = target_of(str(script), ("join", "modify", "leave"))
    (failure,) = verify_handler(target, Options(sequences=7, seconds=100, units=1)).failures
    assert failure.finding.kind == "left_over"
    assert "leave takes nothing away of what join has made" in failure.finding.words


@pytest.mark.parametrize("shared", [pytest.param(False, marks=needs_root), True])
def test_whoever_is_interrupted_leaves_nothing(shared: bool, tmp_path: Path) -> None:
    script = tmp_path / "node.sh"
    script.write_text(f"#!/bin/bash\ntouch {tmp_path}/begun\n(setsid sleep 987654 >/dev/null 2>&1 &)\nsleep 30\n")
    script.chmod(0o755)
    words = ["harness", str(script), *(["--shared"] if shared else [])]
    began = subprocess.Popen(
        [sys.executable, "-m", "leasehold", *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )

    def sleeping() -> list[str]:
        return subprocess.run(
            ["pgrep", "-f", "^sleep 987654$"], capture_output=True, text=True, check=False
        ).stdout.split()

    wait_until(sleeping)
    began.send_signal(signal.SIGINT)
    assert began.communicate(timeout=60)[0].startswith("interrupted: ")
    assert began.returncode == 130
    wait_until(lambda: not sleeping())


def test_without_namespaces_a_copy_of_the_folder_is_seen(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    options = Options(sequences=3, seconds=100, isolate=False, strace=False)
    result = verify_handler(target_of(str(tmp_path / EXAMPLE.name)), options)
    assert result.passed, (result.broken, [(str(f.steps), f.finding) for f in result.failures])
    assert not result.isolated
    assert sorted(path.name for path in tmp_path.iterdir()) == [EXAMPLE.name]
