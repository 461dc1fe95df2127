"""An actor that is killed while it acts on a unit: the next action is the one that counts, the same or the opposite.

A process is killed at each point of an action, and at system calls of it (and of the programs that it runs); another
process does the next action then; and the machine is compared with one on which nobody was killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.impl.drivers.machine import needs, network, seen
from tests.impl.drivers.test_composed import server
from tests.waiting import wait_until

pytestmark = [needs("runc", "mkfs.ext4", "ip", "busybox", "strace"), pytest.mark.long]

ROOT = Path(__file__).parents[3]


class Actors:
    """Processes that act, one at a time."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config, self.number = config, 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.impl.drivers.actor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def act(self, verb: str, die_at: int = 0, **more: Any) -> dict[str, Any]:
        """Does an action, with a new number; returns what became of it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(self.job(verb, die_at, **more)) + "\n")
        self.process.stdin.flush()
        result: dict[str, Any] = json.loads(self.process.stdout.readline())
        return result

    def job(self, verb: str, die_at: int = 0, **more: Any) -> dict[str, Any]:
        self.number += 1
        return {"config": self.config, "action": {"verb": verb, "number": self.number, **more}, "die_at": die_at}

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def job(units: Path, bridge: str) -> dict[str, Any]:
    """The configuration of process groups with a network and limits."""
    confined = {"namespace": "{network.namespace}", "cgroup": "{cgroup.path}", "grace": 0.2}
    return {
        "directory": str(units),
        "properties": {"machine.memory": {"from": "broker", "default": "64MiB"}},
        "parts": [
            {"network": {"bridge": bridge, "subnet": f"{network(bridge)}.0/24"}},
            {"cgroup": {"memory": "{machine.memory}"}},
            {"process": {"command": ["sleep", "1000"], **confined}},
        ],
    }


@pytest.fixture
def kind() -> str:
    """The kind of units: a test may have another."""
    return "server"


@pytest.fixture
def actors(units: Path, bridge: str, image: dict[str, Any], kind: str) -> Iterator[Actors]:
    made = Actors(server(units, bridge, image) if kind == "server" else job(units, bridge))
    yield made
    made.end()


# The points of the actions, at least.
POINTS = {
    "server": {"setup": 27, "modify": 28, "teardown": 16},
    "job": {"setup": 16, "modify": 14, "teardown": 10},
}
OTHER = {"machine.memory": "80MiB"}
AFTER = {"setup": ("setup", "teardown"), "modify": ("modify", "teardown"), "teardown": ("teardown", "setup")}


@pytest.mark.parametrize(("kind", "verb"), [(kind, verb) for kind in POINTS for verb in AFTER])
@pytest.mark.parametrize("alternately", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_actor_that_is_killed_at_any_point(
    actors: Actors, units: Path, bridge: str, kind: str, verb: str, alternately: bool
) -> None:
    """At each point of each action, followed by the same and the opposite one of another process.

    Or, alternately, at each third one, followed by one of them.
    """
    begins = {"setup": False, "modify": True, "teardown": True}[verb]
    result = actors.act("setup")
    assert result["done"], result
    whole = {"setup": seen(units, bridge)}
    assert actors.act("modify", ticket=OTHER)["done"]
    whole["modify"] = seen(units, bridge)
    assert whole["modify"] != whole["setup"]
    assert actors.act("teardown")["done"]
    assert seen(units, bridge) == {}
    whole["teardown"] = {}
    if begins:
        actors.act("setup")
    points = actors.act(verb, **({"ticket": OTHER} if verb == "modify" else {}))["points"]
    if verb != "teardown":
        actors.act("teardown")
    tried, dying = 0, range(1, len(points) + 1, 3 if alternately else 1)
    for die_at in dying:
        for following in AFTER[verb][die_at % 2 :][:1] if alternately else AFTER[verb]:
            if begins:
                assert actors.act("setup")["done"]
            more = {"ticket": OTHER} if verb == "modify" else {}
            died = actors.act(verb, die_at, **more)
            assert died["died"] == -9, f"it was to die at point {die_at}, {points[die_at - 1]}"
            result = actors.act(following, **(more if following == verb else {}))
            assert result.get("done"), f"{following} after {verb} that died at {points[die_at - 1]}: {result}"
            assert seen(units, bridge) == whole[following], f"{following} after {verb}, died at {points[die_at - 1]}"
            if following != "teardown":
                result = actors.act("teardown")
                assert result.get("done"), f"after {verb} that died at {points[die_at - 1]}: {result}"
            assert seen(units, bridge) == {}, f"after {verb} that died at {points[die_at - 1]}"
            tried += 1
    assert tried == len(dying) * (1 if alternately else 2)
    assert len(points) >= POINTS[kind][verb]


# System calls, and the numbers at which a process that makes so many of them dies; of all processes alike.
CALLS = {
    "mkdir,mkdirat": (1, 1, 3, 3),
    "rename,renameat,renameat2": (1, 1, 4, 5),
    "unlink,unlinkat,rmdir": (1, 1, 6, 8),
    "fsync": (1, 1, 5, 6),
    "sendto": (1, 1, 6, 7),
    "flock": (1, 2, 2, 1),
    "wait4": (1, 1, 4, 5),
    "vfork,clone,clone3": (1, 1, 5, 6),
    "mount": (1, 1, 5, 2),
    "umount2": (1, 1),
    "ioctl": (1, 1, 3, 3),
    "socket": (1, 1, 3, 3),
}


def traced(calls: str, when: int, job: dict[str, Any], folder: Path) -> bool:
    """Does an action, of which each process is killed at a system call; returns whether that was in its way."""
    inject = f"inject={calls}:signal=SIGKILL:when={when}"
    program = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={calls}", "-e", inject]
    told = folder / "told"
    with told.open("w") as output:
        tracer = subprocess.Popen(
            [*program, sys.executable, "-m", "tests.impl.drivers.actor"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            text=True,
            cwd=ROOT,
        )
    assert tracer.stdin is not None
    with suppress(BrokenPipeError):
        tracer.stdin.write(json.dumps(job) + "\n")
        tracer.stdin.close()

    def runs() -> bool:
        """Returns whether the actor runs: a child of the tracer, which forks others before it."""
        own = ["pgrep", "-P", str(tracer.pid), "-f", f"^{sys.executable}"]
        return subprocess.run(own, stdout=subprocess.DEVNULL, check=False).returncode == 0

    wait_until(lambda: runs() or tracer.poll() is not None)
    wait_until(lambda: not runs(), 60.0)
    tracer.kill()  # a container goes on, which it would wait for
    tracer.wait()
    return '"done": true' not in told.read_text()


OFTEN = ("rename,renameat,renameat2", "vfork,clone,clone3", "mount", "ioctl")


@pytest.mark.parametrize("calls", [pytest.param(one, marks=[pytest.mark.slow] * (one not in OFTEN)) for one in CALLS])
def test_an_actor_and_its_programs_that_are_killed_at_a_system_call(
    actors: Actors, units: Path, bridge: str, tmp_path: Path, calls: str
) -> None:
    """In setup and teardown by turns, with the same action or the opposite one after it."""
    assert actors.act("setup")["done"]
    up = seen(units, bridge)
    assert actors.act("teardown")["done"]
    disturbed = 0
    for number, when in enumerate(CALLS[calls]):
        verb, opposite = ("setup", "teardown") if number % 2 == 0 else ("teardown", "setup")
        if verb == "teardown":
            assert actors.act("setup")["done"]
        disturbed += traced(calls, when, actors.job(verb), tmp_path)
        following = verb if number // 2 else opposite
        result = actors.act(following)
        assert result.get("done"), f"{following} after {verb} that died at {calls} {when}: {result}"
        assert seen(units, bridge) == (up if following == "setup" else {}), f"{following} after {verb}, {calls} {when}"
        assert actors.act("teardown")["done"]
        assert seen(units, bridge) == {}
    assert disturbed, "no process has died of it"


def test_a_program_that_a_dead_actor_has_left_at_work_is_ended_first(
    actors: Actors, units: Path, bridge: str, tmp_path: Path
) -> None:
    """mkfs stands still; its actor dies; the next action neither waits for it nor works beside it."""
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "mkfs.ext4").write_text("#!/bin/sh\necho $$ >>" + str(tmp_path / "pids") + "\nexec sleep 1000\n")
    (slow / "mkfs.ext4").chmod(0o755)
    code = f"""
import leasehold.impl.drivers.tools as tools
tools.PATH = {str(slow)!r} + ":" + tools.PATH
from tests.impl.drivers.actor import main
main()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, cwd=ROOT, text=True)
    assert process.stdin is not None
    process.stdin.write(json.dumps(actors.job("setup")) + "\n")
    process.stdin.close()
    pids = tmp_path / "pids"
    wait_until(lambda: pids.exists() and pids.read_text().strip())
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    for child in children.stdout.split():
        os.kill(int(child), 9)
    process.kill()
    process.wait()
    assert seen(units, bridge)["programs"], "it is still at work"
    assert actors.act("setup")["done"]
    assert "programs" not in seen(units, bridge)
    assert actors.act("teardown")["done"]
    assert seen(units, bridge) == {}
