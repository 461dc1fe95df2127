"""Any executable as a handler: what it is told, what it says, and that none outlives its action or incarnation."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from leasehold.impl import descriptors, files
from leasehold.impl.handlers import command, processes
from leasehold.impl.handlers.command import CommandHandler
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, NotBegun, Stale
from leasehold.impl.handlers.place import write_file
from tests.impl.scarce import ERRORS, fails_with, few_descriptors
from tests.waiting import wait_until


def action(verb: str = "setup", number: int = 1, unit: str = "u-0", lease: str = "tenant:1") -> HandlerAction:
    data = {"end": 7, "assigned": frozenset({2, 0})}
    return HandlerAction(verb, lease, unit, number, data, {"state": "priming"}, {"cpus": 2}, told={"address": "a"})


def act(handler: CommandHandler, one: HandlerAction) -> Done:
    return asyncio.run(handler.act(one))


def gone(pid: int) -> bool:
    seen = processes.look(pid)
    return seen is None or seen.gone


def pid_in(file: Path) -> int:
    return int(wait_until(lambda: file.exists() and file.read_text().strip()))


def test_what_it_is_told_and_what_it_says(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f'cat >{told}; echo well; echo "{{\\"at\\": \\"$LEASEHOLD_UNIT/$LEASEHOLD_NUMBER/$LEASEHOLD_TERM_END\\"}}"'
    done = act(CommandHandler(setup=["sh", "-c", script]), action())
    assert done == Done(True, "well", {"at": "u-0/1/7"})
    assert json.loads(told.read_text()) == {
        "verb": "setup",
        "lease": "tenant:1",
        "unit": "u-0",
        "number": 1,
        "lease_data": {"end": 7, "assigned": [0, 2]},
        "unit_data": {"state": "priming"},
        "properties": {"cpus": 2},
        "task": "",
        "incarnation": 0,
        "answers": [],
        "index": 0,
        "told": {"address": "a"},
        "type": "",
    }


def test_words_in_quotes_and_no_facts() -> None:
    done = act(CommandHandler(join='sh -c "echo it runs"'), action("join", unit=""))
    assert done == Done(True, "it runs", {})


def test_another_exit_code_is_an_end_that_is_not_well() -> None:
    done = act(CommandHandler(setup=["sh", "-c", "echo so far; echo no disk >&2; exit 4"]), action())
    assert (done.well, done.words) == (False, "setup ended with exit code 4; it said: no disk")
    done = act(CommandHandler(setup=["sh", "-c", "kill -9 $$"]), action())
    assert done.words == "setup ended with signal SIGKILL; it said: nothing"


@pytest.mark.parametrize(
    ("script", "well", "words", "facts"),
    [
        ("true", True, "", {}),
        ("echo; echo", True, "", {}),
        ("echo 5", True, "5", {}),  # JSON, and no object
        ("echo '[1]'", True, "[1]", {}),
        ("echo a; echo '{'", True, "a\n{", {}),
        ("echo '{\"a\": 1}'; echo b", True, '{"a": 1}\nb', {}),  # the last line alone counts
        ("echo '{\"a\": 1}'; echo", True, "", {"a": 1}),
        ("echo '{\"a\": 1}'", True, "", {"a": 1}),
        ("echo a; echo b; echo '{\"a\": 1}'", True, "a\nb", {"a": 1}),
        ("echo no >&2; echo '{\"a\": 1}'", True, "", {"a": 1}),
        ("echo a; echo b; exit 1", False, "setup ended with exit code 1; it said: b", {}),
        ("echo a; echo '{\"a\": 1}'; exit 255", False, "setup ended with exit code 255; it said: a", {"a": 1}),
        ("echo a; echo b >&2; echo c >&2; exit 1", False, "setup ended with exit code 1; it said: c", {}),
        ("exit 1", False, "setup ended with exit code 1; it said: nothing", {}),
        ("kill -TERM $$", False, "setup ended with signal SIGTERM; it said: nothing", {}),
        ("printf 'a\\377'", True, "a\ufffd", {}),
    ],
    ids=str,
)
def test_how_it_ends_and_what_it_says(script: str, well: bool, words: str, facts: dict[str, Any]) -> None:
    assert act(CommandHandler(setup=["sh", "-c", script]), action()) == Done(well, words, facts)


def test_words_are_cut_and_of_much_output_the_end_counts() -> None:
    well = act(CommandHandler(setup=["sh", "-c", "printf '%0501d' 7"]), action())
    assert well.words == "7".rjust(500, "0")
    bad = act(CommandHandler(setup=["sh", "-c", "printf '%0500d7' 1; exit 1"]), action())
    assert bad.words.endswith("it said: " + "1".rjust(500, "0"))
    python = "import sys; sys.stdout.write('x\\n{\"a\": \"' + 'y' * (%d - 9) + '\"}')"
    for size, read in ((1 << 20, True), ((1 << 20) + 1, False)):
        done = act(CommandHandler(setup=[sys.executable, "-c", python % size]), action())
        assert (len(done.facts.get("a", "")) == size - 9) is read


@pytest.mark.parametrize(
    ("data", "end"), [({"end": 7, "lease_end": 9}, "7"), ({"lease_end": 9}, "9"), ({}, "0")], ids=str
)
def test_its_environment_says_what_it_is_for(data: dict[str, Any], end: str) -> None:
    """Beside the actor's own environment, and what the handler's settings add."""
    names = ("VERB", "LEASE", "UNIT", "NUMBER", "TASK", "INCARNATION", "LOCK", "TERM_END")
    script = "; ".join(f"echo ${name}" for name in (*(f"LEASEHOLD_{name}" for name in names), "COLOUR", "PATH"))
    handler = CommandHandler(setup=["sh", "-c", script], join=["sh", "-c", script], environment={"COLOUR": "red"})
    for verb, unit in (("setup", "u-0"), ("join", "")):
        done = act(handler, HandlerAction(verb, "tenant:1", unit, 5, data, task="t/1", incarnation=4))
        on = unit or "tenant:1"
        assert done.words.split("\n") == [
            verb,
            "tenant:1",
            *([unit] if unit else [""]),
            "5",
            "t/1",
            "4",
            on,
            end,
            "red",
            os.environ["PATH"],
        ]


def test_whatever_a_record_holds_it_is_told_as_json(tmp_path: Path) -> None:
    told = tmp_path / "told"
    data = {"map": MappingProxyType({"a": MappingProxyType({"b": 1})}), "place": Path("/x"), "set": frozenset({2, 1})}
    assert act(CommandHandler(setup=["sh", "-c", f"cat >{told}"]), HandlerAction("setup", "l", "u", 1, data)).well
    assert json.loads(told.read_text())["lease_data"] == {"map": {"a": {"b": 1}}, "place": "/x", "set": [1, 2]}


def test_a_probe_is_told_its_unit_and_may_say_nothing(tmp_path: Path) -> None:
    told = tmp_path / "told"
    handler = CommandHandler(probe=["sh", "-c", f"cat >{told}; echo $LEASEHOLD_VERB $LEASEHOLD_UNIT >>{told}"])
    assert asyncio.run(handler.probe("u-0")) == {}
    words, _, variables = told.read_text().rpartition("}")
    assert json.loads(words + "}") == {"verb": "probe", "unit": "u-0"}
    assert variables == "probe u-0\n"


def test_a_finished_action_leaves_no_open_file_and_a_private_directory(tmp_path: Path) -> None:
    handler = CommandHandler(directory=tmp_path / "locks", setup="true", teardown="false", modify="no-such-command")
    act(handler, action())
    before = len(os.listdir("/proc/self/fd"))
    for number, verb in enumerate(("setup", "teardown", "modify", "setup"), 2):
        if verb == "modify":
            with pytest.raises(HandlerError, match="cannot be started"):
                act(handler, action(verb, number))
        else:
            assert act(handler, action(verb, number)).well is (verb == "setup")
    assert len(os.listdir("/proc/self/fd")) == before
    assert (tmp_path / "locks" / "u-0").stat().st_mode & 0o777 == 0o700
    assert act(handler, action("setup", 5)).well, "the same action may be done again"
    with pytest.raises(Stale):
        act(handler, action("setup", 4))


def test_another_actor_that_holds_the_lock_is_waited_for_and_never_killed(tmp_path: Path) -> None:
    """And neither is the executable of another unit, nor one that has let go of the lock."""
    locks = tmp_path / "locks"
    handler = CommandHandler(directory=locks, setup=["touch", str(tmp_path / "done")])
    (locks / "u-0").mkdir(parents=True)
    script = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(1, flush=True); sys.stdin.read()"
    marks = ({}, {"LEASEHOLD_LOCK": "u-00"}, {"LEASEHOLD_LOCK": "tenant:1"})
    for number, mark in enumerate(marks, 1):
        holder = subprocess.Popen(
            [sys.executable, "-c", script, str(locks / "u-0" / "lock")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **mark},
        )
        bystander = subprocess.Popen(["sleep", "600"], env={**os.environ, "LEASEHOLD_LOCK": "u-0"})
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()

        async def run(number: int = number, holder: subprocess.Popen[bytes] = holder) -> None:
            task = asyncio.create_task(handler.act(action("setup", number)))
            await asyncio.wait([task], timeout=0.1)
            assert not task.done()
            assert not (tmp_path / "done").exists()
            assert holder.stdin is not None
            holder.stdin.close()
            assert (await task).well

        try:
            asyncio.run(run())
            assert holder.wait(10) == 0
            assert bystander.poll() is None
        finally:
            bystander.kill()
            bystander.wait()
            holder.kill()
            holder.wait()
            holder.stdout.close()
        (tmp_path / "done").unlink()


def test_a_probe_has_the_variables_of_the_last_action(tmp_path: Path) -> None:
    show = ["sh", "-c", 'printf "{\\"told\\": \\"%s\\"}" "$LEASEHOLD_VERB $LEASEHOLD_INDEX $LEASEHOLD_TYPE"']
    handler = CommandHandler(directory=tmp_path / "locks", setup="true", modify="false", probe=show)
    assert asyncio.run(handler.probe("u-0")) == {"told": "probe  "}
    for verb, index in (("setup", 3), ("modify", 4)):
        asyncio.run(handler.act(replace(action(verb), index=index, type="node")))
        assert asyncio.run(handler.probe("u-0")) == {"told": f"probe {index} node"}
    assert asyncio.run(handler.probe("u-1")) == {"told": "probe  "}


def test_what_cannot_be_written_down_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = CommandHandler(directory=tmp_path / "locks", setup="true")
    asyncio.run(handler.act(action()))

    def full(file: Path, value: object) -> None:
        if file.name == "told.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_file(file, value)  # type: ignore[arg-type]

    with monkeypatch.context() as context:
        context.setattr(command, "write_file", full)
        with pytest.raises(NotBegun, match="cannot be written: No space left"):
            asyncio.run(handler.act(action(number=2)))
    assert asyncio.run(asyncio.wait_for(handler.act(action(number=2)), 5)).well


def test_a_probe(tmp_path: Path) -> None:
    script = f"test -e {tmp_path}/$LEASEHOLD_UNIT && echo '{{\"up\": true}}'"
    handler = CommandHandler(probe=["sh", "-c", script])
    assert asyncio.run(handler.probe("u-0")) is None
    (tmp_path / "u-0").touch()
    assert asyncio.run(handler.probe("u-0")) == {"up": True}
    assert asyncio.run(CommandHandler(setup="true").probe("u-0")) is None


@pytest.mark.real_time
async def test_what_is_cancelled_is_killed_with_its_children(tmp_path: Path) -> None:
    """The actor gives an action up at its limit by cancelling it (paper, Table 1, invariant 9)."""
    script = f"trap '' TERM; sleep 600 & echo $! >{tmp_path}/child; echo $$ >{tmp_path}/shell; wait"
    task = asyncio.create_task(CommandHandler(setup=["sh", "-c", script]).act(action()))
    while not (tmp_path / "shell").exists():
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone(pid_in(tmp_path / "shell"))
    wait_until(lambda: gone(pid_in(tmp_path / "child")))


def test_what_is_cancelled_while_it_begins_leaves_nothing(tmp_path: Path) -> None:
    """Also where the executable runs already, and the actor has not heard of it yet."""
    handler = CommandHandler(
        setup=["sh", "-c", "sleep 600 & sleep 600"], environment={"CANCELLED_AT_ONCE": str(tmp_path)}
    )
    mark = f"CANCELLED_AT_ONCE={tmp_path}".encode()

    async def run(turns: int) -> None:
        task = asyncio.create_task(handler.act(action()))
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.01)  # the executable goes on, and the loop does not
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 20)

    for turns in range(1, 25):
        asyncio.run(run(turns))
        wait_until(lambda: not [s for s in processes.everyone() if not s.gone and processes.carries(s.pid, mark)])


def test_an_executable_left_behind_by_a_dead_actor_is_ended_first(tmp_path: Path) -> None:
    slow = f"echo $$ >{tmp_path}/shell; sleep 600"
    script = f"""
        import asyncio
        from leasehold.impl.handlers.command import CommandHandler
        from leasehold.impl.handlers.handler import HandlerAction
        handler = CommandHandler(directory={str(tmp_path / "locks")!r}, setup=["sh", "-c", {slow!r}])
        asyncio.run(handler.act(HandlerAction("setup", "tenant:1", "u-0", 1, {{}})))
    """
    actor = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])
    try:
        shell = pid_in(tmp_path / "shell")
    finally:
        actor.kill()
        actor.wait()
    assert not gone(shell), "it outlives its actor"
    done = act(CommandHandler(directory=tmp_path / "locks", teardown="true"), action("teardown", 2))
    assert done.well
    wait_until(lambda: gone(shell))


def test_a_daemon_that_let_go_of_the_lock_stays(tmp_path: Path) -> None:
    python = f"""
        import os, subprocess
        kept = subprocess.Popen(["sleep", "600"], start_new_session=True, close_fds=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        open({str(tmp_path / "daemon")!r}, "w").write(str(kept.pid))
    """
    handler = CommandHandler(
        directory=tmp_path / "locks", setup=[sys.executable, "-c", textwrap.dedent(python)], modify="true"
    )
    try:
        assert act(handler, action()).well
        assert act(handler, action("modify", 2)).well
        assert not gone(pid_in(tmp_path / "daemon"))
    finally:
        os.kill(pid_in(tmp_path / "daemon"), signal.SIGKILL)


def test_older_actions_are_refused(tmp_path: Path) -> None:
    handler = CommandHandler(directory=tmp_path, setup=["touch", str(tmp_path / "done")], join="true")
    assert act(handler, action("join", 5)).well
    with pytest.raises(Stale, match="action 4 on u-0 is older than action 5"):
        act(handler, action("setup", 4))
    assert not (tmp_path / "done").exists()
    assert act(handler, action("join", 4, unit="", lease="tenant/..")).well, "each lease has its own numbers"


def test_incarnations_at_once_write_their_actions_down_one_after_the_other(tmp_path: Path) -> None:
    """Two that wrote one file at the same time have damaged it, and no action has begun on that unit any more."""

    unit = tmp_path / "u-0"

    def many(numbers: range) -> None:
        for number in numbers:
            with suppress(Stale):
                lock = command._try(unit / "lock", action("setup", number), True)
                if lock is not None:
                    os.close(lock)

    threads = [threading.Thread(target=many, args=(range(first, 60, 3),)) for first in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert json.loads((unit / "wanted.json").read_text())["number"] == 59


def test_who_writes_an_action_down_for_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "GUARD_LIMIT", 0.05)
    (tmp_path / "u-0").mkdir()
    held = files.lock(tmp_path / "u-0" / "guard")
    assert held is not None
    with pytest.raises(HandlerError, match=r"another process has held .*guard for 0.05 s"):
        act(CommandHandler(directory=tmp_path, setup="true"), action())
    os.close(held)


def test_it_need_not_read_and_may_say_much() -> None:
    handler = CommandHandler(setup=["sh", "-c", "exec <&-; yes | head -c 3000000; echo; echo '{\"up\": 1}'"])
    lease = HandlerAction("setup", "l", "u", 1, {"much": "x" * 1_000_000})
    assert act(handler, lease).facts == {"up": 1}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "there is no command; name one for each verb"),
        ({"setup": ""}, "setup: '' is no command line"),
        ({"setup": "echo 'a"}, 'setup: "echo \'a" is no command line: No closing quotation'),
        ({"setup": [1]}, "setup: '.1.' is no command line"),
        ({"setup": []}, "setup: '..' is no command line"),
        ({"setup": 7}, "setup: '7' is no command line"),
        ({"setup": None}, "setup: 'None' is no command line"),
        ({"setup": {"a": 1}}, "is no command line"),
        ({"setup": ["a", 1]}, "is no command line"),
        ({"setup": "true", "directory": "/x", "teardown": ""}, "teardown: '' is no command line"),
        ({"directory": "/x"}, "there is no command"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(HandlerError, match=words):
        CommandHandler(**settings)


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(HandlerError, match="no-such-command cannot be started for setup: No such file"):
        act(CommandHandler(setup="no-such-command"), action())
    with pytest.raises(HandlerError, match="there is no command for teardown; name one, or `teardown: /bin/true`"):
        act(CommandHandler(setup="true"), action("teardown"))


@pytest.mark.parametrize(
    ("probe", "up"),
    [("exit 0", True), ("exit 1", False), ("exit 2", False), ("exit 3", False), ("echo {}; exit 3", False)],
)
def test_the_exit_code_of_a_probe_says_whether_a_unit_is_up(probe: str, up: bool) -> None:
    assert asyncio.run(CommandHandler(probe=["sh", "-c", probe]).is_up("u-0")) is up


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (["sh", "-c", "echo no route >&2; exit 255"], "probe ended with exit code 255; it said: no route"),
        (["sh", "-c", "exit 4"], "probe ended with exit code 4; it said: nothing"),
        (["sh", "-c", "kill -9 $$"], "probe ended with signal SIGKILL"),
        (["/nowhere/probe"], "/nowhere/probe cannot be started for probe"),
    ],
)
def test_a_probe_that_cannot_ask_says_neither(probe: list[str], words: str) -> None:
    with pytest.raises(HandlerError, match=words):
        asyncio.run(CommandHandler(probe=probe).is_up("u-0"))


def test_without_a_probe_a_command_cannot_say_what_is_up() -> None:
    assert asyncio.run(CommandHandler(setup="true").is_up("u-0")) is None


@pytest.mark.real_time
async def test_a_probe_that_hangs_is_killed_when_it_is_given_up(tmp_path: Path) -> None:
    file = tmp_path / "pid"

    handler = CommandHandler(probe=["sh", "-c", f"echo $$ >{file}; sleep 600"])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await handler.is_up("u-0")
    wait_until(lambda: gone(pid_in(file)))


# What a holder runs on a unit of a site


def guest(verb: str, lease: str, number: int, fence: int, told: dict[str, Any] | None = None) -> HandlerAction:
    properties = {"site": "north", "name": "node-3", "fence": fence} if told is None else told
    return HandlerAction(verb, lease, f"{lease}/guest[3]", number, {"lease_end": 9}, properties=properties, index=3)


def test_a_late_leave_does_nothing_to_the_guest_of_the_next_lease(tmp_path: Path) -> None:
    """The unit is known by its site and name, and the newer fence of its next lease counts."""
    said = tmp_path / "said"
    script = ["sh", "-c", f"echo $LEASEHOLD_VERB $LEASEHOLD_LEASE $LEASEHOLD_INDEX >>{said}"]
    handler = CommandHandler(directory=tmp_path / "locks", join=script, leave=script)
    assert act(handler, guest("join", "tenant:1", 8, 5)).well
    assert act(handler, guest("join", "tenant:2", 1, 9)).well, "its own numbers begin anew"
    with pytest.raises(Stale, match=r"action 9 on north/node-3 is older than action 1, which it has seen"):
        act(handler, guest("leave", "tenant:1", 9, 5))
    assert act(handler, guest("leave", "tenant:2", 2, 9)).well
    assert said.read_text().splitlines() == ["join tenant:1 3", "join tenant:2 3", "leave tenant:2 3"]


def test_a_guest_whose_unit_is_not_named_is_its_lease_s_own(tmp_path: Path) -> None:
    handler = CommandHandler(directory=tmp_path / "locks", join="true", leave="true")
    assert act(handler, guest("join", "tenant:2", 4, 0, {})).well
    assert act(handler, guest("leave", "tenant:1", 2, 0, {})).well
    assert guest("join", "tenant:1", 1, 0, {}).on == "tenant:1/guest[3]"
    assert guest("join", "tenant:1", 1, 5).on == "north/node-3"
    assert HandlerAction("setup", "l", "u", 1, {}, properties={"site": "s", "name": "n", "fence": 3}).on == "u"
    assert HandlerAction("setup", "l", "u", 1, {}, properties={"fence": 3}).fence == 0, (
        "its inventory says what it will"
    )


def test_what_others_are_told_of_a_unit_is_in_the_last_line() -> None:
    script = ["sh", "-c", 'echo \'{"pid": 7, "properties": {"address": "10.0.0.7"}}\'']
    done = act(CommandHandler(setup=script), action())
    assert (done.facts, done.properties) == ({"pid": 7}, {"address": "10.0.0.7"})


@pytest.mark.parametrize("spare", range(10))
@pytest.mark.real_time
async def test_without_descriptors_a_command_was_not_begun_and_leaves_nothing(tmp_path: Path, spare: int) -> None:
    handler = CommandHandler(directory=tmp_path / "locks", setup=["sh", "-c", "echo {}"], probe="true")

    await handler.act(action())
    before = len(os.listdir("/proc/self/fd"))
    for number in range(2, 5):
        with few_descriptors(spare):
            (end,) = await asyncio.gather(handler.act(action(number=number)), return_exceptions=True)
        assert isinstance(end, NotBegun) or descriptors.is_passing(end) or end.well, repr(end)  # type: ignore
    assert len(os.listdir("/proc/self/fd")) == before
    assert (await handler.act(action(number=9))).well


def test_what_is_cancelled_closes_its_pipes_though_a_daemon_keeps_the_other_ends(tmp_path: Path) -> None:
    script = f"setsid sh -c 'echo $$ >>{tmp_path}/daemons; exec sleep 600' & sleep 600"
    handler = CommandHandler(setup=["sh", "-c", script])

    async def story() -> None:
        counts = []
        for number in range(1, 5):
            task = asyncio.create_task(handler.act(action(number=number)))
            file = tmp_path / "daemons"
            while not file.exists() or len(file.read_text().split()) < number:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            counts.append(len(os.listdir("/proc/self/fd")))
        assert len(set(counts)) == 1, counts

    try:
        asyncio.run(story())
    finally:
        for pid in (tmp_path / "daemons").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def test_who_waits_for_a_lock_that_a_daemon_keeps_costs_nothing(tmp_path: Path) -> None:
    """The daemon has another environment, so it is nobody's left-over that might be ended."""
    locks = tmp_path / "locks"
    handler = CommandHandler(directory=locks, setup="true")
    (locks / "u-0").mkdir(parents=True)
    script = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(1, flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(locks / "u-0" / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdout.readline()

    async def story() -> None:
        assert holder.stdin is not None
        task = asyncio.create_task(handler.act(action()))
        await asyncio.sleep(1.5)
        busy = time.process_time()
        await asyncio.sleep(3)
        assert time.process_time() - busy < 1.0
        holder.stdin.close()
        assert (await asyncio.wait_for(task, 30)).well

    try:
        asyncio.run(story())
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@pytest.mark.parametrize("verb", ["setup", "modify", "teardown", "join", "leave"])
def test_what_is_lacking_at_this_moment_is_no_failure_of_a_command(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Descriptors, memory, room on the disk: then it has not begun; anything else is its failure."""
    for number, lacking in ERRORS.items():
        with monkeypatch.context() as patch:
            patch.setattr("leasehold.impl.handlers.command.want", fails_with(number))
            with pytest.raises(NotBegun if lacking else OSError, match=os.strerror(number)):
                act(CommandHandler(directory=tmp_path, **{verb: "true"}), action(verb))
