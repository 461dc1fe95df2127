"""Units as real processes: made once, found again, and gone when they are torn down, wherever an actor dies."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl import descriptors, files
from leasehold.impl.handlers import place, process, processes
from leasehold.impl.handlers.handler import HandlerAction, HandlerError, NotBegun, Stale
from leasehold.impl.handlers.place import TOKEN, Cancelled, UnitDirectory
from leasehold.impl.handlers.process import POINTS, STARTER, ProcessHandler
from tests.impl.scarce import ERRORS, fails_with, few_descriptors
from tests.waiting import wait_until

pytestmark = pytest.mark.real_time

SETUP_POINTS = [p for p in POINTS if p in ("guarded", "wanted", "locked", "started", "kept")]
TEARDOWN_POINTS = ["guarded", "wanted", "asked", "cleared", "removed"]
STARTER_POINTS = ["session", "wanted", "born"]

# Keeps a child, and a grandchild that ignores TERM; says so when both are there.
FAMILY = """
import os, signal, subprocess, sys
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('deaf', 'w').close(); time.sleep(600)"
subprocess.Popen(["sleep", "600"], close_fds=True)
subprocess.Popen([sys.executable, "-I", "-S", "-c", deaf], close_fds=True)
signal.pause()
"""


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """A base directory; whatever its units have started is killed in the end, by token or by open lock."""
    folder = tmp_path / "units"
    yield folder
    for token in folder.glob("*/token"):
        mark = f"{TOKEN}={token.read_text()}".encode()
        lock = token.with_name("lock")
        file = lock.stat() if lock.exists() else None
        for _ in range(50):
            found = [
                s
                for s in processes.everyone()
                if not s.gone
                and s.pid != os.getpid()
                and (processes.carries(s.pid, mark) or (file and processes.holds(s.pid, file.st_dev, file.st_ino)))
            ]
            for seen in found:
                processes.send(seen, signal.SIGKILL)
            if not found:
                break
            time.sleep(0.01)


def action(verb: str, number: int, lease: str = "tenant:1", unit: str = "u-0", **more: Any) -> HandlerAction:
    task = f"site/{unit}/{verb}/{number}"
    return HandlerAction(verb, lease, unit, number, {"end": 7}, task=task, incarnation=2, **more)


def do(base: Path, *actions: HandlerAction, **settings: Any) -> list[Any]:
    """Does actions with one handler, as one incarnation of an actor would; answers how each ended."""

    async def run() -> list[Any]:
        handler = ProcessHandler(base, **{"grace": 0.2, **settings})
        ended: list[Any] = []
        try:
            for one in actions:
                try:
                    ended.append(await handler.act(one))
                except HandlerError as e:
                    ended.append(e)
        finally:
            await handler.close()
        return ended

    return asyncio.run(run())


def probe(base: Path, unit: str = "u-0") -> Any:
    return asyncio.run(ProcessHandler(base).probe(unit))


def carrying(base: Path, unit: str = "u-0") -> list[int]:
    """The processes that live in a unit, found without the handler's help."""
    mark = f"{TOKEN}={(base / unit / 'token').read_text()}".encode()
    return [s.pid for s in processes.everyone() if not s.gone and processes.carries(s.pid, mark)]


def die(base: Path, verb: str, number: int, point: str, starter: Path = STARTER, more: str = "") -> None:
    """An actor of its own process does an action, and is killed by SIGKILL at a point of it."""
    script = f"""
        import asyncio, os, signal
        from pathlib import Path
        from leasehold.impl.handlers.handler import HandlerAction
        from leasehold.impl.handlers.process import ProcessHandler
        def at(name):
            if name == {point!r}:
                os.kill(os.getpid(), signal.SIGKILL)
        async def main():
            handler = ProcessHandler({str(base)!r}, grace=0.2, at=at, starter=Path({str(starter)!r}){more})
            await handler.act(HandlerAction({verb!r}, "tenant:1", "u-0", {number}, {{"end": 7}}))
        asyncio.run(main())
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], timeout=60, check=False, capture_output=True
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def dying_starter(folder: Path, point: str) -> Path:
    """A starter that is killed at a point of its own."""
    file = folder / f"starter_{point}.py"
    file.write_text(
        f"import os, signal, sys\nsys.path.insert(0, {str(STARTER.parent)!r})\nimport starter\n"
        f"starter.point = lambda name: name == {point!r} and os.kill(os.getpid(), signal.SIGKILL)\nstarter.main()\n"
    )
    return file


def slow_starter(folder: Path, point: str) -> Path:
    """A starter that stays at a point until a file `go` is there."""
    file = folder / f"slow_{point}.py"
    file.write_text(
        f"import os, sys, time\nsys.path.insert(0, {str(STARTER.parent)!r})\nimport starter\n"
        f"def point(name):\n    if name == {point!r}:\n        open({str(folder / 'here')!r}, 'w').close()\n"
        f"        while not os.path.exists({str(folder / 'go')!r}):\n            time.sleep(0.005)\n"
        "starter.point = point\nstarter.main()\n"
    )
    return file


def test_setup_twice_makes_one(base: Path) -> None:
    first, second = do(base, action("setup", 1), action("setup", 2))
    assert first.well
    assert first.facts["alive"]
    assert (second.facts["pid"], second.facts["start"]) == (first.facts["pid"], first.facts["start"])
    assert carrying(base) == [first.facts["pid"]]
    assert second.facts["number"] == 2


def test_what_runs_knows_its_unit_lease_and_term(base: Path) -> None:
    command = [
        "sh",
        "-c",
        "echo {unit} {lease} {term_end} $LEASEHOLD_UNIT $LEASEHOLD_LEASE $LEASEHOLD_TERM_END; pwd; exec sleep 60",
    ]
    (done,) = do(base, action("setup", 1), command=command, environment={"COLOUR": "red"})
    log = base / "u-0" / "log"
    wait_until(lambda: log.read_text().count("\n") == 2)
    assert log.read_text() == f"u-0 tenant:1 7 u-0 tenant:1 7\n{done.facts['directory']}\n"
    environment = Path(f"/proc/{done.facts['pid']}/environ").read_bytes()
    names = {word.partition(b"=")[0].decode() for word in environment.split(b"\0") if word}
    assert {"COLOUR", "HOME", "PATH", "LEASEHOLD_UNIT"} <= names
    assert names <= {
        "LEASEHOLD_TASK",
        "LEASEHOLD_INCARNATION",
        "LEASEHOLD_INDEX",
        "LEASEHOLD_PROPERTIES",
        "COLOUR",
        "HOME",
        "PATH",
        "LEASEHOLD_UNIT",
        "LEASEHOLD_LEASE",
        "LEASEHOLD_TERM_END",
        TOKEN,
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
        "LC_CTYPE",
    }, "the actor's own environment is none of the unit's business"


def test_a_unit_is_nobody_s_child_and_has_its_own_session(base: Path) -> None:
    (done,) = do(base, action("setup", 1))
    seen = processes.look(done.facts["pid"])
    assert seen is not None
    assert seen.session == seen.pid
    assert seen.parent != os.getpid() or os.getpid() == 1, "the first of all processes takes whoever has no parent"


def test_teardown_leaves_nothing_and_may_be_done_again(base: Path) -> None:
    done = do(base, action("teardown", 1), action("setup", 2), action("teardown", 3), action("teardown", 4))
    assert all(d.well for d in done)
    assert carrying(base) == []
    assert probe(base) is None
    assert not (base / "u-0" / "work").exists()


def test_the_lock_is_held_from_the_first_process_on_until_nothing_is_left(base: Path) -> None:
    """By the handler or by the unit: who has it finds either a whole unit or none."""
    held: dict[str, bool] = {}

    def at(name: str) -> None:
        lock = files.lock(base / "u-0" / "lock") if name not in ("guarded", "wanted", "asked") else None
        held[name] = held.get(name, True) and lock is None
        if lock is not None:
            os.close(lock)

    done = do(base, action("setup", 1), action("setup", 2), action("modify", 3), action("teardown", 4), at=at)
    assert all(d.well for d in done)
    assert held == dict.fromkeys(POINTS, True)


def test_descendants_are_gone_after_teardown_also_deaf_ones(base: Path) -> None:
    """TERM, then KILL after the grace; descendants that closed the lock are found by session and token."""
    (done,) = do(base, action("setup", 1), command=[sys.executable, "-c", FAMILY])
    wait_until(lambda: (Path(done.facts["directory"]) / "deaf").exists())
    wait_until(lambda: len(carrying(base)) == 3)
    began = time.monotonic()
    (down,) = do(base, action("teardown", 2))
    assert down.well
    assert time.monotonic() - began >= 0.2
    assert carrying(base) == []


def test_a_process_that_left_session_and_environment_is_found_by_the_lock(base: Path) -> None:
    command = ["sh", "-c", "env -i setsid sleep 600 & echo $! >hidden; exec sleep 600"]
    (done,) = do(base, action("setup", 1), command=command)
    hidden = Path(done.facts["directory"]) / "hidden"
    pid = wait_until(lambda: hidden.exists() and int(hidden.read_text() or 0))
    wait_until(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes() and pid not in carrying(base))
    (down,) = do(base, action("teardown", 2))
    assert down.well
    seen = processes.look(pid)
    assert seen is None or seen.gone


def test_a_stopped_unit_is_torn_down_without_a_kill(base: Path) -> None:
    (done,) = do(base, action("setup", 1))
    os.kill(done.facts["pid"], signal.SIGSTOP)
    began = time.monotonic()
    assert do(base, action("teardown", 2), grace=30)[0].well
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("point", SETUP_POINTS)
@pytest.mark.parametrize("then", ["setup", "teardown"])
def test_an_actor_killed_while_it_sets_up(base: Path, point: str, then: str) -> None:
    """The next incarnation finds what there is: one unit or none, never two; and can take it down."""
    if point == "kept":
        do(base, action("setup", 1))
    die(base, "setup", 2, point)
    (done,) = do(base, action(then, 3))
    assert done.well, done
    assert len(carrying(base)) == (then == "setup")
    if then == "setup":
        assert probe(base)["alive"]
        assert do(base, action("teardown", 4))[0].well
    assert carrying(base) == []


@pytest.mark.parametrize("point", TEARDOWN_POINTS)
@pytest.mark.parametrize("then", ["setup", "teardown"])
def test_an_actor_killed_while_it_tears_down(base: Path, point: str, then: str) -> None:
    do(base, action("setup", 1))
    die(base, "teardown", 2, point)
    (done,) = do(base, action(then, 3))
    assert done.well, done
    assert len(carrying(base)) == (then == "setup")


@pytest.mark.parametrize("point", STARTER_POINTS)
@pytest.mark.parametrize("then", ["setup", "teardown"])
def test_a_starter_killed_on_its_way(base: Path, tmp_path: Path, point: str, then: str) -> None:
    tmp_path.joinpath("s").mkdir()
    (failed,) = do(base, action("setup", 1), starter=dying_starter(tmp_path / "s", point))
    assert isinstance(failed, HandlerError)
    (done,) = do(base, action(then, 2))
    assert done.well, done
    assert len(carrying(base)) == (then == "setup")


@pytest.mark.parametrize("point", STARTER_POINTS)
@pytest.mark.parametrize("goes_on", ["in the midst", "later"])
@pytest.mark.parametrize("then", ["setup", "teardown"])
def test_a_start_left_behind_by_a_dead_actor_does_no_harm(
    base: Path, tmp_path: Path, point: str, goes_on: str, then: str
) -> None:
    """The actor is killed while its starter stays at a point; that goes on amid the next action, or after it."""
    slow, go = slow_starter(tmp_path, point), tmp_path / "go"
    script = f"""
        import asyncio
        from pathlib import Path
        from leasehold.impl.handlers.handler import HandlerAction
        from leasehold.impl.handlers.process import ProcessHandler
        handler = ProcessHandler({str(base)!r}, starter=Path({str(slow)!r}))
        asyncio.run(handler.act(HandlerAction("setup", "tenant:1", "u-0", 1, {{"end": 7}})))
    """
    actor = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])
    try:
        wait_until((tmp_path / "here").exists)
    finally:
        actor.kill()
        actor.wait()
    assert carrying(base), "the starter lives on"
    (done,) = do(
        base, action(then, 2), at=lambda name: go.touch() if (name, goes_on) == ("wanted", "in the midst") else None
    )
    go.touch()
    assert done.well, done
    assert len(carrying(base)) == (then == "setup")
    if then == "setup":
        # Overtaken before it looked, or killed as it did not move, or found and kept.
        number = 1 if point == "born" or (point, goes_on) == ("wanted", "in the midst") else 2
        assert json.loads((base / "u-0" / "process.json").read_text())["number"] == number


def test_the_unit_outlives_the_actor(base: Path) -> None:
    die(base, "setup", 1, "started")
    before = probe(base)
    assert before["alive"]
    (done,) = do(base, action("setup", 2))
    assert (done.facts["pid"], done.facts["start"]) == (before["pid"], before["start"])


def test_a_process_number_that_is_used_again_is_not_killed(base: Path) -> None:
    """A record that names another's process, by its number but not its start time, is of a process long gone."""
    do(base, action("setup", 1), action("teardown", 2))
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        try:
            seen = processes.look(stranger.pid)
            assert seen is not None
            born = {
                "pid": seen.pid,
                "start": seen.start - 1,
                "boot": processes.boot(),
                "lease": "tenant:1",
                "number": 1,
            }
            (base / "u-0" / "process.json").write_text(json.dumps(born))
            assert not probe(base)["alive"]
            up, down = do(base, action("setup", 3), action("teardown", 4))
            assert up.well
            assert up.facts["pid"] != stranger.pid
            assert down.well
            (base / "u-0" / "process.json").write_text(json.dumps({**born, "start": seen.start, "boot": "another"}))
            assert do(base, action("teardown", 5))[0].well
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_older_actions_are_refused_and_change_nothing(base: Path) -> None:
    (up,) = do(base, action("setup", 5))
    for verb in ("teardown", "setup", "modify"):
        (refused,) = do(base, action(verb, 4))
        assert isinstance(refused, Stale)
        assert str(refused) == "action 4 on u-0 is older than action 5, which it has seen"
    assert carrying(base) == [up.facts["pid"]]
    down, late = do(base, action("teardown", 6), action("setup", 5))
    assert down.well
    assert isinstance(late, Stale)
    assert carrying(base) == []


def test_modify_keeps_the_processes_and_tells_the_term(base: Path) -> None:
    (up,) = do(base, action("setup", 1))
    longer = HandlerAction("modify", "tenant:1", "u-0", 2, {"end": 99}, properties={"limits": {"files": 40}})
    (changed,) = do(base, longer)
    assert changed.facts["pid"] == up.facts["pid"]
    assert json.loads((base / "u-0" / "lease.json").read_text()) == {"lease": "tenant:1", "term_end": 99}
    assert "Max open files            40" in Path(f"/proc/{up.facts['pid']}/limits").read_text()


def test_modify_starts_what_has_died(base: Path) -> None:
    (up,) = do(base, action("setup", 1))
    (Path(up.facts["directory"]) / "kept").touch()
    os.kill(up.facts["pid"], signal.SIGKILL)
    wait_until(lambda: not probe(base)["alive"])
    (again,) = do(base, action("modify", 2))
    assert again.facts["alive"]
    assert again.facts["pid"] != up.facts["pid"]
    assert (Path(up.facts["directory"]) / "kept").exists(), "the same lease keeps its directory"


def test_another_lease_finds_nothing_of_the_one_before(base: Path) -> None:
    """Also where the unit was not torn down in between."""
    (up,) = do(base, action("setup", 1))
    (Path(up.facts["directory"]) / "secret").touch()
    (other,) = do(base, action("setup", 2, lease="tenant:2"))
    assert carrying(base) == [other.facts["pid"]]
    assert other.facts["lease"] == "tenant:2"
    assert list(Path(other.facts["directory"]).iterdir()) == []


def test_limits_and_permissions(base: Path) -> None:
    limits = {"cpu_seconds": 50, "memory_bytes": 1 << 30, "files": 64, "processes": 500}
    (up,) = do(base, action("setup", 1), limits=limits)
    text = Path(f"/proc/{up.facts['pid']}/limits").read_text()
    lines = {line[:26].strip(): line[26:].split()[:2] for line in text.splitlines()}
    assert lines["Max cpu time"] == ["50", "50"]
    assert lines["Max address space"] == [str(1 << 30)] * 2
    assert lines["Max open files"] == ["64", "64"]
    assert lines["Max processes"] == ["500", "500"]
    assert lines["Max core file size"] == ["0", "0"]
    for folder in (base, base / "u-0", base / "u-0" / "work"):
        assert folder.stat().st_mode & 0o777 == 0o700
    for file in (base / "u-0").iterdir():
        assert file.is_dir() or file.stat().st_mode & 0o077 == 0, file


def cancelled(base: Path, one: HandlerAction, point: str, **settings: Any) -> None:
    """Does an action, and cancels it when it comes to a point; it must have ended when `act` has."""

    async def run() -> None:
        loop, reached = asyncio.get_running_loop(), asyncio.Event()
        go, ended = threading.Event(), list[str]()

        def at(name: str) -> None:
            if name == point and not reached.is_set():
                loop.call_soon_threadsafe(reached.set)
                go.wait(10)
                ended.append(name)

        handler = ProcessHandler(base, **{"grace": 0.2, "at": at, **settings})
        task = asyncio.create_task(handler.act(one))
        await asyncio.wait_for(reached.wait(), 20)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done(), "the action is still at work"
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [point]
        await handler.close()

    asyncio.run(run())


@pytest.mark.parametrize("point", ["guarded", "wanted", "locked", "started"])
@pytest.mark.parametrize("then", ["setup", "teardown"])
def test_a_setup_that_is_cancelled(base: Path, point: str, then: str) -> None:
    cancelled(base, action("setup", 1), point)
    (done,) = do(base, action(then, 2))
    assert done.well, done
    assert len(carrying(base)) == (then == "setup")


def test_a_setup_that_waits_for_a_start_left_behind_can_be_cancelled(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "BIRTH_LIMIT", 60.0)
    do(base, action("setup", 1), action("teardown", 2))
    held = files.lock(base / "u-0" / "lock")
    assert held is not None

    async def run() -> None:
        loop, reached = asyncio.get_running_loop(), asyncio.Event()
        handler = ProcessHandler(base, at=lambda name: loop.call_soon_threadsafe(reached.set) and None)
        task = asyncio.create_task(handler.act(action("setup", 3)))
        await reached.wait()
        await asyncio.wait([task], timeout=0.05)
        task.cancel()
        async with asyncio.timeout(20):
            await asyncio.wait([task])
        assert task.cancelled()
        await handler.close()

    try:
        asyncio.run(run())
    finally:
        os.close(held)


@pytest.mark.parametrize("point", TEARDOWN_POINTS)
@pytest.mark.parametrize("then", ["setup", "teardown"])
def test_a_teardown_that_is_cancelled(base: Path, point: str, then: str) -> None:
    do(base, action("setup", 1))
    cancelled(base, action("teardown", 2), point)
    (done,) = do(base, action(then, 3))
    assert done.well, done
    assert len(carrying(base)) == (then == "setup")


async def test_two_incarnations_at_once_exclude_each_other(base: Path) -> None:
    """Paper, section 5.2: instances of a handler at the same time, to bring out concurrency bugs."""
    handlers = [ProcessHandler(base, grace=0.2) for _ in range(3)]
    verbs = ["setup", "teardown", "setup", "setup", "teardown", "setup"]
    acts = [handlers[i % 3].act(action(verb, i + 1)) for i, verb in enumerate(verbs)]
    ended = await asyncio.gather(*acts, return_exceptions=True)
    assert all(isinstance(e, Stale) or e.well for e in ended), ended  # type: ignore[union-attr]
    assert ended[-1].well  # type: ignore[union-attr]
    for handler in handlers:
        await handler.close()
    assert len(carrying(base)) == 1


async def test_many_units_at_once(base: Path) -> None:
    handler = ProcessHandler(base, grace=0.2)
    units = [f"u-{i}" for i in range(12)]
    up = await asyncio.gather(*(handler.act(action("setup", 1, unit=u)) for u in units))
    assert len({d.facts["pid"] for d in up}) == 12
    await asyncio.gather(*(handler.act(action("teardown", 2, unit=u)) for u in units))
    assert [await handler.probe(u) for u in units] == [None] * 12
    await handler.close()


def test_a_command_that_is_not_there_or_ends_at_once(base: Path) -> None:
    (missing,) = do(base, action("setup", 1), command=["no-such-command"])
    assert "'no-such-command' cannot be started: FileNotFoundError" in str(missing)
    assert not probe(base)["alive"]
    (short,) = do(base, action("setup", 2), command=["sh", "-c", "echo no licence; exit 3"])
    if isinstance(short, HandlerError):  # unless it was still alive for a moment
        assert str(short) == "the command has ended at once; its last words: no licence"
    wait_until(lambda: not probe(base)["alive"])
    assert do(base, action("setup", 3))[0].well


def test_a_directory_that_nobody_may_enter_is_removed(base: Path) -> None:
    command = ["sh", "-c", "mkdir -p a/b; touch a/b/c; chmod 000 a/b a; touch done; exec sleep 60"]
    (up,) = do(base, action("setup", 1), command=command)
    wait_until((Path(up.facts["directory"]) / "done").exists)
    assert do(base, action("teardown", 2))[0].well
    assert not Path(up.facts["directory"]).exists()


def test_what_a_unit_points_at_outside_keeps_its_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To remove folders that nobody may enter they are opened first, but not those that a link leads to."""
    work, outside, tries, rmtree = tmp_path / "work", tmp_path / "outside", [PermissionError()], shutil.rmtree
    (work / "a" / "b").mkdir(parents=True)
    outside.mkdir(mode=0o755)
    outside.chmod(0o755)
    (work / "a" / "out").symlink_to(outside)
    (work / "a").chmod(0o000)
    work.chmod(0o000)

    def once(folder: Path) -> None:
        if tries:
            raise tries.pop()
        opened = [stat.S_IMODE(path.stat().st_mode) for path in (work, work / "a", work / "a" / "b")]
        assert opened == [0o700] * 3
        rmtree(folder)

    monkeypatch.setattr(place.shutil, "rmtree", once)
    place._remove_tree(work)
    assert not work.exists()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; otherwise all tests are unprivileged")
def test_without_privileges(tmp_path: Path) -> None:
    """The same as any user, here `nobody`: limits, teardown of closed directories, and limits that cannot be raised."""
    folder = Path("/tmp") / f"leasehold-unprivileged-{os.getpid()}"
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    script = """
        import asyncio, os, sys
        from leasehold.impl.handlers.handler import HandlerError
        from leasehold.impl.handlers.handler import HandlerAction
        from leasehold.impl.handlers.process import STARTER, ProcessHandler
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        able = [p for p in (sys.executable, "/usr/bin/python3") if os.access(p, os.X_OK)]
        if not able or not os.access(STARTER, os.R_OK):
            sys.exit(77)
        sys.executable = able[0]
        async def main():
            outside = sys.argv[1] + "/outside"
            os.makedirs(outside)
            os.chmod(outside, 0o500)
            command = ["sh", "-c", f"mkdir -p a/b; touch a/b/c; ln -s {outside} a/link; chmod 000 a/b a; exec sleep 60"]
            h = ProcessHandler(sys.argv[1] + "/units", command, limits={"files": 64}, grace=0.2)
            def act(verb, number, **properties):
                return h.act(HandlerAction(verb, "l", "u", number, {"end": 7}, properties=properties))
            try:
                up = await act("setup", 1)
                assert up.facts["alive"]
                try:
                    await act("modify", 2, limits={"files": 100})
                    raise AssertionError("a limit was raised")
                except HandlerError as e:
                    assert "only root may raise a limit" in str(e), e
                assert (await act("modify", 3, limits={"files": 32})).facts["pid"] == up.facts["pid"]
            finally:
                assert (await act("teardown", 4)).well
            assert await h.probe("u") is None
            assert os.stat(outside).st_mode & 0o777 == 0o500, "a link leads out of the unit"
            await h.close()
        asyncio.run(main())
    """
    try:
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), str(folder)],
            cwd="/",
            timeout=60,
            check=False,
            capture_output=True,
        )
        if ended.returncode == 77:
            pytest.skip("the other user cannot read this installation")
        assert ended.returncode == 0, ended.stderr.decode()
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"command": "sleep 5"}, "needs a list of words"),
        ({"command": []}, "needs a list of words"),
        (
            {"command": ["run", "{lesse}"]},
            r"\{lesse\} in '\{lesse\}', which stands for nothing \(there are: unit, lease",
        ),
        ({"command": ["run", "{"]}, "for brackets"),
        ({"limits": {"cpu": 5}}, "there is no limit 'cpu' .there are: cpu_seconds, memory_bytes, files, processes"),
        ({"limits": {"files": 0}}, "files is 0; it needs a number of 1 or more"),
    ],
)
def test_settings_that_cannot_be_used(base: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(HandlerError, match=words):
        ProcessHandler(base, **settings)


def test_a_directory_that_is_open_to_others_is_refused(base: Path) -> None:
    base.mkdir(mode=0o755)
    base.chmod(0o755)
    with pytest.raises(HandlerError, match="is open to others; do `chmod 700"):
        ProcessHandler(base)


@pytest.mark.parametrize(
    "limits", [7, [5], "files", {"files": True}, {"files": "5"}, {"files": 1.5}, {"files": -1}, {1: 5}], ids=str
)
def test_limits_that_make_no_sense_are_refused_also_those_of_a_unit(base: Path, limits: Any) -> None:
    with pytest.raises(HandlerError, match=r"^limits: "):
        ProcessHandler(base, limits=limits)
    (refused,) = do(base, action("setup", 1, properties={"limits": limits}))
    assert isinstance(refused, HandlerError)
    assert str(refused).startswith("limits of u-0: ")
    assert probe(base) is None


@pytest.mark.parametrize(
    "command", [None, 7, [1], ["run", 1], ["{0}"], ["{}"], ["}"], ["{unit!r"], {"run": 1}], ids=str
)
def test_commands_that_are_none_are_refused(base: Path, command: Any) -> None:
    with pytest.raises(HandlerError, match=r"^`command` "):
        ProcessHandler(base, command)


def test_a_directory_that_is_none_of_its_own_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HandlerError, match="cannot be made"):
        ProcessHandler(tmp_path / "file" / "units")
    if os.geteuid() == 0:
        (tmp_path / "other").mkdir(mode=0o700)
        os.chown(tmp_path / "other", 65534, 65534)
        with pytest.raises(HandlerError, match="belongs to user 65534"):
            ProcessHandler(tmp_path / "other")
    for mode in (0o710, 0o701, 0o720, 0o777):
        (tmp_path / "open").mkdir(exist_ok=True)
        (tmp_path / "open").chmod(mode)
        with pytest.raises(HandlerError, match="is open to others"):
            ProcessHandler(tmp_path / "open")


def test_what_is_known_of_a_unit_from_its_setup_to_its_teardown(base: Path) -> None:
    assert probe(base) is None, "before anything, and nothing is made by asking"
    assert list(base.iterdir()) == []
    (up,) = do(base, action("setup", 3))
    seen = processes.look(up.facts["pid"])
    assert seen is not None
    known = {
        "alive": True,
        "pid": seen.pid,
        "start": seen.start,
        "lease": "tenant:1",
        "number": 3,
        "directory": str(base / "u-0" / "work"),
        "processes": 1,
    }
    assert (up.words, up.facts, probe(base)) == ("it was started", known, known)
    (kept,) = do(base, action("modify", 4))
    assert (kept.words, kept.facts) == ("it runs on", {**known, "number": 4})
    os.kill(seen.pid, signal.SIGKILL)
    wait_until(lambda: not probe(base)["alive"])
    assert probe(base) == {**known, "alive": False, "number": 4, "processes": 0}
    (down,) = do(base, action("teardown", 5))
    assert (down.words, down.facts, probe(base)) == ("nothing is left of it", {"alive": False}, None)
    assert {file.name for file in (base / "u-0").iterdir()} == {"guard", "lock", "token", "wanted.json", "log"}
    assert json.loads((base / "u-0" / "wanted.json").read_text()) == {
        "number": 5,
        "verb": "teardown",
        "lease": "tenant:1",
        "task": "site/u-0/teardown/5",
        "incarnation": 2,
    }


def test_what_a_unit_has_on_disk(base: Path) -> None:
    (up,) = do(base, action("setup", 3))
    folder = base / "u-0"
    names = {"guard", "lock", "token", "wanted.json", "lease.json", "process.json", "log", "work"}
    assert {file.name for file in folder.iterdir()} == names, "and nothing that was only on the way"
    assert json.loads((folder / "lease.json").read_text()) == {"lease": "tenant:1", "term_end": 7}
    assert json.loads((folder / "process.json").read_text()) == {
        "pid": up.facts["pid"],
        "start": up.facts["start"],
        "boot": processes.boot(),
        "number": 3,
        "lease": "tenant:1",
        "command": ["sleep", "infinity"],
        "task": "site/u-0/setup/3",
        "incarnation": 2,
    }
    token = (folder / "token").read_text()
    assert len(token) == 32
    assert int(token, 16)
    do(base, action("teardown", 4), action("setup", 5), action("setup", 6, unit="u-1"))
    assert (folder / "token").read_text() == token != (base / "u-1" / "token").read_text()


def test_a_unit_begins_as_from_a_shell(base: Path) -> None:
    """Nothing to read, a log that begins anew, no signal ignored that Python ignores, and files for its owner alone."""
    command = ["sh", "-c", "umask; echo {lease} >&2; exec sleep 60"]
    for number, lease in ((1, "tenant:1"), (2, "tenant:2")):
        (up,) = do(base, action("setup", number, lease=lease), command=command)
        log = base / "u-0" / "log"
        wait_until(lambda log=log: log.read_text().count("\n") == 2)
        assert log.read_text() == f"0077\n{lease}\n"
    process = Path(f"/proc/{up.facts['pid']}")
    ignored = int((process / "status").read_text().partition("SigIgn:")[2].split()[0], 16)
    assert not [number for number in (signal.SIGPIPE, signal.SIGXFSZ) if ignored >> (number - 1) & 1]
    files = {name.name: os.readlink(name) for name in (process / "fd").iterdir()}
    assert files.pop("0") == "/dev/null"
    assert {files.pop("1"), files.pop("2")} == {str(log)}
    assert sorted(files.values()) == [str(base / "u-0" / "lock")], "and of its actor's files nothing but the lock"


def test_a_unit_that_listens_to_its_end_has_the_time_for_it(base: Path) -> None:
    """It is asked once, and killed only when the grace is over."""
    command = [
        "sh",
        "-c",
        "trap 'echo asked >>said; sleep 0.3; echo over >>said; exit' TERM; touch here; while :; do sleep 0.01; done",
    ]
    (up,) = do(base, action("setup", 1), command=command)
    work = Path(up.facts["directory"])
    wait_until((work / "here").exists)
    said: list[str] = []

    def at(name: str) -> None:
        if name == "cleared":
            said.append((work / "said").read_text())

    assert do(base, action("teardown", 2), grace=20, at=at)[0].well
    assert said == ["asked\nover\n"]


def test_limits_of_a_unit_come_before_those_of_the_handler(base: Path) -> None:
    def files(done: Any) -> str:
        lines = Path(f"/proc/{done.facts['pid']}/limits").read_text().splitlines()
        return next(line.split()[3] for line in lines if line.startswith("Max open files"))

    own = {"properties": {"limits": {"files": 60}}}
    settings = {"limits": {"files": 50, "cpu_seconds": 70}}
    (up,) = do(base, action("setup", 1, **own), **settings)
    assert files(up) == "60"
    assert "Max cpu time              70" in Path(f"/proc/{up.facts['pid']}/limits").read_text()
    (kept,) = do(base, action("setup", 2), **settings)
    assert (kept.facts["pid"], files(kept)) == (up.facts["pid"], "60"), "a setup that finds the unit leaves it as it is"
    (kept,) = do(base, action("modify", 3), **settings)
    assert (kept.facts["pid"], files(kept)) == (up.facts["pid"], "50")


def test_an_action_leaves_no_open_file(base: Path) -> None:
    settings: dict[str, Any] = {"command": ["no-such-command"]}
    do(base, action("setup", 1), action("teardown", 2))
    before = len(os.listdir("/proc/self/fd"))
    for number, verb in enumerate(("setup", "modify", "setup", "teardown", "teardown"), 3):
        assert do(base, action(verb, number))[0].well
    assert isinstance(do(base, action("setup", 8), **settings)[0], HandlerError)
    assert isinstance(do(base, action("setup", 2))[0], Stale)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not (base / "u-0" / "process.json").exists(), "what did not begin is not kept"


def test_a_unit_that_somebody_unknown_holds_is_not_removed(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "KILL_LIMIT", 0.1)
    do(base, action("setup", 1), action("teardown", 2))
    (base / "u-0" / "work").mkdir()
    held = files.lock(base / "u-0" / "lock")
    assert held is not None
    try:
        (refused,) = do(base, action("teardown", 3))
        assert "somebody who cannot be found; nothing of it was removed" in str(refused)
        assert (base / "u-0" / "work").exists()
    finally:
        os.close(held)
    assert do(base, action("teardown", 4))[0].well
    assert not (base / "u-0" / "work").exists()


def test_an_action_that_another_one_keeps_waiting_is_given_up_or_cancelled(base: Path) -> None:
    do(base, action("setup", 1))
    place, stop = UnitDirectory(base / "u-0"), threading.Event()
    with place.guarded(stop, 1):
        with pytest.raises(HandlerError, match=r"acting on u-0 for 0\.05 s"), place.guarded(stop, 0.05):
            raise AssertionError
        stop.set()
        with pytest.raises(Cancelled), place.guarded(stop, 30):
            raise AssertionError
    with place.guarded(stop, 0):
        pass


def test_a_starter_that_never_begins_is_given_up(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_LIMIT", 0.2)
    starter = tmp_path / "starter.py"
    starter.write_text("import time\ntime.sleep(600)\n")
    (refused,) = do(base, action("setup", 1), starter=starter)
    assert "has not begun within 0.2 s" in str(refused)
    assert carrying(base) == []
    monkeypatch.undo()
    assert do(base, action("setup", 2))[0].well


def test_what_a_starter_says_is_the_reason(base: Path, tmp_path: Path) -> None:
    starter = tmp_path / "starter.py"
    for text, said in (
        ("import sys; sys.exit('no way')", "no way"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("print('half'); print('whole')", "half\nwhole"),
    ):
        starter.write_text(text)
        (refused,) = do(base, action("setup", 1), starter=starter)
        assert str(refused) == f"'sleep' cannot be started: {said}"


def test_a_folder_that_was_made_halfway_has_no_processes(base: Path) -> None:
    """Without a token nothing can have lived there; and whatever carries an empty one is none of its processes."""
    ProcessHandler(base)
    (base / "u-0" / "work").mkdir(parents=True)
    place = UnitDirectory(base / "u-0")
    with subprocess.Popen(["sleep", "600"], env={TOKEN: ""}) as stranger:
        try:
            wait_until(lambda: processes.carries(stranger.pid, f"{TOKEN}=".encode()))
            assert (place.token, place.members(), place.members(thorough=True)) == ("", [], [])
            assert probe(base)["processes"] == 0
            (up,) = do(base, action("setup", 1))
            assert carrying(base) == [up.facts["pid"]]
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_file_that_is_json_and_no_record_says_nothing(base: Path) -> None:
    do(base, action("setup", 1), action("teardown", 2))
    (base / "u-0" / "wanted.json").write_text("[5]")
    assert do(base, action("setup", 1))[0].well


def test_names_that_leave_the_directory_are_refused(base: Path) -> None:
    for unit in ("../up", "", "a/b", ".hidden"):
        (refused,) = do(base, action("setup", 1, unit=unit))
        assert "cannot be the name of a directory" in str(refused)
    (refused,) = do(base, action("dance", 1))
    assert "know setup, modify, join, teardown, leave, not 'dance'" in str(refused)
    assert list(base.iterdir()) == []


def test_a_damaged_record_says_so(base: Path) -> None:
    do(base, action("setup", 1))
    (base / "u-0" / "wanted.json").write_text("{")
    (refused,) = do(base, action("teardown", 2))
    assert "wanted.json is damaged" in str(refused)
    assert len(carrying(base)) == 1


def test_whether_a_unit_is_up_is_whether_its_first_process_runs(base: Path) -> None:
    def is_up(unit: str = "u-0") -> bool:
        return asyncio.run(ProcessHandler(base).is_up(unit))

    assert not is_up(), "before anything"
    assert not base.joinpath("u-0").exists(), "nothing is made by asking"
    up = asyncio.run(ProcessHandler(base).act(action("setup", 1)))
    assert (is_up(), is_up("u-1")) == (True, False)
    os.kill(up.facts["pid"], signal.SIGKILL)
    wait_until(lambda: not is_up())
    asyncio.run(ProcessHandler(base).act(action("setup", 2)))
    assert is_up()
    folder = base / "u-0"
    born = json.loads((folder / "process.json").read_text())
    (folder / "process.json").write_text(json.dumps({**born, "boot": "an earlier one"}))
    assert not is_up(), "the host has been started anew, and the number may be another's"
    (folder / "process.json").write_text("{")
    with pytest.raises(HandlerError, match="is damaged"):
        is_up()
    (folder / "process.json").unlink()
    assert not is_up()
    with pytest.raises(HandlerError, match="cannot be the name of a directory"):
        is_up("../u-0")


async def test_whether_a_unit_is_up_is_said_while_all_threads_act(base: Path) -> None:
    handler = ProcessHandler(base, parallel=1)
    await handler.act(action("setup", 1))
    gate = threading.Event()
    busy = asyncio.get_running_loop().run_in_executor(handler._pool, gate.wait)
    async with asyncio.timeout(5):
        assert await handler.is_up("u-0")
    gate.set()
    await busy
    await handler.act(action("teardown", 2))
    assert not await handler.is_up("u-0")
    await handler.close()


def test_what_the_system_lacks_is_no_failure_and_says_nothing_about_a_unit(base: Path) -> None:
    """With each number of descriptors to spare an action is done, or was not begun; a unit that runs is never gone."""
    do(base, action("setup", 1))

    async def story() -> None:
        handler = ProcessHandler(base, grace=0.2)
        await handler.act(action("modify", 2))  # its threads are there
        await handler.is_up("u-0")
        seen = set()
        for spare in range(12):
            for doing in (handler.is_up("u-0"), handler.act(action("setup", 3 + spare, unit="u-1"))):
                task = asyncio.ensure_future(doing)  # type: ignore[arg-type]
                with few_descriptors(spare):
                    await asyncio.wait([task])
                error = task.exception()
                assert error is None or descriptors.is_passing(error) or isinstance(error, NotBegun), repr(error)
                assert error is not None or task.result() is True or task.result().well
                seen.add(type(error))
            if spare % 4 == 3:
                await handler.act(action("teardown", 3 + spare, unit="u-1"))
        assert seen == {type(None), OSError, NotBegun}
        assert await handler.is_up("u-0")
        await handler.close()

    asyncio.run(story())


def test_a_unit_has_the_limit_of_descriptors_of_before(base: Path) -> None:
    soft, hard = descriptors.limit_of_children()
    do(base, action("setup", 1))
    limits = Path(f"/proc/{probe(base)['pid']}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == [str(soft), str(hard)]


async def test_a_unit_cannot_fill_its_site_s_disk(base: Path) -> None:
    """Its files have a size at most, and its log is cut while it writes on."""
    script = "import sys, time; print('y' * 99, flush=True); [print(n, 'x' * 1000) for n in range(2000)]; print('last')"
    script += "; sys.stdout.flush(); time.sleep(1); open('big', 'w').write('z' * 3_000_000)"
    settings: Any = {"command": [sys.executable, "-c", script + "; time.sleep(600)"], "log_bytes": 100_000}

    handler = ProcessHandler(base, grace=0.2, limits={"file_bytes": 2_500_000}, **settings)
    await handler.act(action("setup", 1))
    folder = base / "u-0"
    deadline = time.monotonic() + 20
    while await handler.is_up("u-0"):  # it is killed as it writes too large a file
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    assert (folder / "log").stat().st_size <= 100_000
    assert (folder / "log.1").stat().st_size <= 50_000
    assert "last" in (folder / "log.1").read_text() + (folder / "log").read_text()
    assert (folder / "work" / "big").stat().st_size <= 2_500_000
    await handler.close()


def test_a_unit_is_not_set_up_where_its_disk_has_only_the_reserve_left(base: Path) -> None:
    (error,) = do(base, action("setup", 1), reserve_bytes=1 << 60)
    assert isinstance(error, NotBegun)
    assert "bytes left, and" in str(error)
    (done,) = do(base, action("teardown", 2), reserve_bytes=1 << 60)
    assert done.well


async def test_what_is_left_of_a_unit_is_named(base: Path) -> None:
    handler = ProcessHandler(base, grace=0.2)
    assert await handler.left_of("u-0") == ""
    await handler.act(action("setup", 1))
    facts = await handler.probe("u-0")
    assert facts is not None
    assert await handler.left_of("u-0") == f"process {facts['pid']}"
    await handler.act(action("teardown", 2))
    assert await handler.left_of("u-0") == ""
    lock = files.lock(base / "u-0" / "lock")
    assert lock is not None
    assert await handler.left_of("u-0") == "a process that cannot be found keeps its lock"
    os.close(lock)
    await handler.close()


@pytest.mark.parametrize("verb", ["setup", "modify", "teardown", "join", "leave"])
def test_what_is_lacking_at_this_moment_is_no_failure_of_an_action(
    verb: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Descriptors, memory, processes, room on the disk: then it has not begun; anything else is its failure."""
    for number, lacking in ERRORS.items():
        with monkeypatch.context() as patch:
            patch.setattr("leasehold.impl.handlers.process.want", fails_with(number))
            if lacking:
                (end,) = do(base, action(verb, 1))
                assert isinstance(end, NotBegun)
                assert os.strerror(number) in str(end)
            else:
                with pytest.raises(OSError, match=os.strerror(number)):
                    do(base, action(verb, 1))
