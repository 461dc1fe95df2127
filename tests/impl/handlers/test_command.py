"""Any executable as a handler: what it is told, what it says, and that none outlives its action or incarnation."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.handlers import processes
from leasehold.impl.handlers.command import CommandHandler
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, Stale


def action(verb: str = "setup", number: int = 1, unit: str = "u-0", lease: str = "tenant:1") -> HandlerAction:
    data = {"end": 7, "assigned": frozenset({2, 0})}
    return HandlerAction(verb, lease, unit, number, data, {"state": "priming"}, {"cpus": 2})


def act(handler: CommandHandler, one: HandlerAction) -> Done:
    return asyncio.run(handler.act(one))


def until(true: Callable[[], Any], seconds: float = 10.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.005)
    return found


def gone(pid: int) -> bool:
    seen = processes.look(pid)
    return seen is None or seen.gone


def pid_in(file: Path) -> int:
    return int(until(lambda: file.exists() and file.read_text().strip()))


def test_what_it_is_told_and_what_it_says(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f'cat >{told}; echo well; echo "{{\\"at\\": \\"$LEASEHOLD_UNIT/$LEASEHOLD_NUMBER/$LEASEHOLD_TERM_END\\"}}"'
    done = act(CommandHandler(setup=["sh", "-c", script]), action())
    assert done == Done(True, "well", {"at": "u-0/1/7"})
    assert json.loads(told.read_text()) == {
        "verb": "setup", "lease": "tenant:1", "unit": "u-0", "number": 1,
        "lease_data": {"end": 7, "assigned": [0, 2]}, "unit_data": {"state": "priming"}, "properties": {"cpus": 2},
    }  # fmt: skip


def test_words_in_quotes_and_no_facts() -> None:
    done = act(CommandHandler(join='sh -c "echo it runs"'), action("join", unit=""))
    assert done == Done(True, "it runs", {})


def test_another_exit_code_is_an_end_that_is_not_well() -> None:
    done = act(CommandHandler(setup=["sh", "-c", "echo so far; echo no disk >&2; exit 4"]), action())
    assert (done.well, done.words) == (False, "setup ended with exit code 4; it said: no disk")
    done = act(CommandHandler(setup=["sh", "-c", "kill -9 $$"]), action())
    assert done.words == "setup ended with signal SIGKILL; it said: nothing"


def test_a_probe(tmp_path: Path) -> None:
    script = f"test -e {tmp_path}/$LEASEHOLD_UNIT && echo '{{\"up\": true}}'"
    handler = CommandHandler(probe=["sh", "-c", script])
    assert asyncio.run(handler.probe("u-0")) is None
    (tmp_path / "u-0").touch()
    assert asyncio.run(handler.probe("u-0")) == {"up": True}
    assert asyncio.run(CommandHandler(setup="true").probe("u-0")) is None


def test_what_is_cancelled_is_killed_with_its_children(tmp_path: Path) -> None:
    """The actor gives an action up at its limit by cancelling it (paper, Table 1, invariant 9)."""
    script = f"trap '' TERM; sleep 600 & echo $! >{tmp_path}/child; echo $$ >{tmp_path}/shell; wait"

    async def run() -> None:
        task = asyncio.create_task(CommandHandler(setup=["sh", "-c", script]).act(action()))
        while not (tmp_path / "shell").exists():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert gone(pid_in(tmp_path / "shell"))
    until(lambda: gone(pid_in(tmp_path / "child")))


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
        until(lambda: not [s for s in processes.everyone() if not s.gone and processes.carries(s.pid, mark)])


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
    until(lambda: gone(shell))


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


def test_it_need_not_read_and_may_say_much() -> None:
    handler = CommandHandler(setup=["sh", "-c", "exec <&-; yes | head -c 3000000; echo; echo '{\"up\": 1}'"])
    lease = HandlerAction("setup", "l", "u", 1, {"much": "x" * 1_000_000})
    assert act(handler, lease).facts == {"up": 1}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "there is no command; name one for each verb"),
        ({"set_up": "true"}, "there is no verb 'set_up' .there are: setup, modify"),
        ({"setup": ""}, "setup: '' is no command line"),
        ({"setup": "echo 'a"}, 'setup: "echo \'a" is no command line: No closing quotation'),
        ({"setup": [1]}, "setup: '.1.' is no command line"),
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
