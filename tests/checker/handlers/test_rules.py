"""Rules of the judge that one sequence shows, with a handler that breaks each, or keeps it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.handlers.harness import Options, Stage, play_again
from leasehold.checker.handlers.player import Play, PlayerSetting
from leasehold.checker.handlers.sequence import HandlerFault, HandlerStep, Replay, Sequence
from leasehold.checker.handlers.target import target_of

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("strace") is None, reason="needs root, for worlds of their own, and strace"
)

UNIT = """#!/bin/bash
set -eu
unit=$PWD/made/$LEASEHOLD_UNIT
mkdir -p made
"""
# What a pipe's first program says is lost; the volume stays as it is once it is there.
PIPE = (
    'case $LEASEHOLD_VERB in setup) [ -e "$unit" ] || head -c 8192 /dev/zero | cat >"$unit";; *) rm -f "$unit";; esac'
)
# Hidden files stay for the next holder.
HIDDEN = 'case $LEASEHOLD_VERB in setup) mkdir -p "$unit";; *) rm -rf "$unit"/*; rmdir "$unit" || true;; esac'
# Another size makes the volume anew.
RESIZED = """size=$(grep -o '"size":[0-9]*' <<<"$LEASEHOLD_PROPERTIES" | tr -dc 0-9)
case $LEASEHOLD_VERB in
teardown) rm -rf "$unit" ;;
*) if [ "$(cat "$unit/size" 2>/dev/null)" != "$size" ]; then
    rm -rf "$unit"; mkdir -p "$unit/home"; echo "$size" >"$unit/size"
fi ;;
esac
"""
# Right: a table of all units, each of which it names while it is there.
TABLE = """touch made/table
case $LEASEHOLD_VERB in
setup)
    if ! grep -qx "$LEASEHOLD_UNIT" made/table; then
        cp made/table made/new; echo "$LEASEHOLD_UNIT" >>made/new; mv made/new made/table
    fi ;;
*) grep -vx "$LEASEHOLD_UNIT" made/table >made/new || true; mv made/new made/table ;;
esac
"""


def found(does: str, folder: Path, *steps: HandlerStep, **asked: Any) -> list[str]:
    """The kinds of faults that a sequence shows of a script."""
    script = folder / "node.sh"
    script.write_text(UNIT + does + "\n")
    script.chmod(0o755)
    verbs = ("setup", *(["modify"] if asked else []), "teardown")
    target = target_of(str(script), verbs, **asked)
    replay = Replay(handler=str(script), digest="", verbs=verbs, units=2, steps=steps)
    (played,) = play_again(replay, target, Options(units=2))
    return [finding.kind for finding in played.findings]


def cannot_execute(verb: str, program: str, unit: int = 0) -> HandlerStep:
    place = shutil.which(program)
    assert place is not None
    return HandlerStep(verb, unit, fault=HandlerFault("error", call="execve", program=place))


def test_a_volume_is_as_long_as_undisturbed_ones(tmp_path: Path) -> None:
    assert found(PIPE, tmp_path, HandlerStep("setup")) == []
    assert found(PIPE, tmp_path, cannot_execute("setup", "head"), HandlerStep("setup")) == ["half_made"]


def test_hidden_files_of_a_holder_are_for_no_other(tmp_path: Path) -> None:
    assert found(HIDDEN, tmp_path, HandlerStep("setup"), HandlerStep("teardown")) == ["left_over"]


def test_another_property_destroys_no_data(tmp_path: Path) -> None:
    steps = HandlerStep("setup"), HandlerStep("modify")
    sizes = {"properties": {"size": 4}, "modified": {"size": 4}}
    assert found(RESIZED, tmp_path, *steps, **sizes) == []
    assert found(RESIZED, tmp_path, *steps, **{**sizes, "modified": {"size": 8}}) == ["data_lost"]


def test_a_file_that_names_a_unit_whose_teardown_has_failed_is_nobody_s(tmp_path: Path) -> None:
    steps = HandlerStep("setup", 1), cannot_execute("teardown", "mv", 1), HandlerStep("setup")
    assert found(TABLE, tmp_path, *steps) == []


def test_a_verb_is_killed_at_each_call_that_has_changed_something(tmp_path: Path) -> None:
    script = tmp_path / "node.sh"
    script.write_text(f"{UNIT}{TABLE}: </etc/hostname; rmdir nowhere 2>/dev/null || true\n")
    script.chmod(0o755)
    setting = PlayerSetting(target_of(str(script), ("setup", "teardown")), "hxyz", 1, 20.0)
    with Stage(str(tmp_path), None) as stage:
        played = stage.play(Play(setting, Sequence((HandlerStep("setup"),)), trace="setup"))
    assert not played.broken
    calls = [call for call, _ in played.changes]
    assert len(set(played.changes)) == len(calls)
    assert "rmdir" in played.calls
    assert "rmdir" not in calls, "it has failed"
    moved = next(number for number, call in enumerate(calls) if call.startswith("rename"))
    assert {"mkdir", "write"} <= {*calls[:moved]}, "the folder, the table and its copy are made before it is moved"
    opened = [nth for call, nth in played.changes if call == "openat"]
    assert 0 < len(opened) < played.calls["openat"], "those that read alone do not count"
