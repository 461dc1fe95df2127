"""Nothing blocks the event loop of an actor: whatever stands still outside, its turns stay short."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from leasehold.impl.handlers.command import CommandHandler
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.notices import Consumed, Kind, Notice
from leasehold.impl.observe import logs
from leasehold.impl.server.subscribers import Archive
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Batch, RecordKey
from leasehold.impl.transport.http import HttpTransport
from leasehold.impl.transport.transport import Delivery, Reply
from tests.impl.handlers.test_command import action
from tests.impl.turns import short_turns


def test_the_watchdog_sees_a_turn_that_is_too_long() -> None:
    async def story() -> None:
        with short_turns(0.1):
            await asyncio.sleep(0.05)
            time.sleep(0.5)
            await asyncio.sleep(0.05)

    with pytest.raises(AssertionError, match=r"a turn took 0\.[345]"):
        asyncio.run(story())


def test_a_log_that_nobody_reads_stops_nothing_and_says_how_much_was_left_out() -> None:
    """As a process of its own: its standard error is a pipe, which holds 64 KiB, and the log ten thousand lines."""
    script = """
        import asyncio, logging, sys, time
        from leasehold.impl.observe import logs
        from tests.impl.turns import short_turns
        logs.configure("text", "info")
        log = logging.getLogger("leasehold.test")
        async def story():
            with short_turns(1.0):
                for number in range(25_000):
                    log.info("line %d, which is long enough to fill a pipe soon", number)
                    if number % 100 == 0:
                        await asyncio.sleep(0)
        asyncio.run(story())
        print("went on", flush=True)
        sys.stdin.readline()
        logging.getLogger().handlers[0].flush()
        log.info("the last line")
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    limit = threading.Timer(60, process.kill)
    limit.start()
    assert process.stdout.readline() == "went on\n"
    _, said = process.communicate("\n")
    limit.cancel()
    lines = said.splitlines()
    assert process.returncode == 0
    numbers = [int(line.partition("line ")[2].partition(",")[0]) for line in lines if "long enough" in line]
    assert numbers == sorted(numbers)
    left_out = 25_000 - len(numbers)
    assert left_out > 0
    said_so = re.findall(r"(\d+) lines were left out, as nobody read the log", said)
    assert sum(map(int, said_so)) == left_out
    assert lines[-1].endswith("the last line")


@pytest.mark.parametrize("unbuffered", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
def test_nobody_waits_at_the_end_for_a_log_that_nobody_reads(unbuffered: dict[str, str]) -> None:
    script = """
        import logging
        from leasehold.impl.observe import logs
        logs.configure("text", "info")
        for number in range(5000):
            logging.getLogger("leasehold.test").info("line %d, which is long enough to fill a pipe soon", number)
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    program = [sys.executable, "-c", textwrap.dedent(script)]
    process = subprocess.Popen(program, stderr=subprocess.PIPE, env=environment | unbuffered)
    try:
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.real_time
async def test_a_lock_on_the_store_that_another_program_holds_stops_no_turn(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    await store.open("site")
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(0.8, other.execute, "ROLLBACK")
    with short_turns():
        await store.commit(Batch({RecordKey("a:1", "unit"): b"x"}))
    await store.close()
    other.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(0.8, other.execute, "ROLLBACK")
    with short_turns():
        await store.open("site")
    await store.close()
    other.close()


@pytest.mark.real_time
async def test_files_that_have_become_pipes_stop_no_turn(tmp_path: Path) -> None:
    """A trust set, and an archive: the one before holds, and nothing is forgotten."""
    path, archived = tmp_path / "trust.yaml", tmp_path / "over.jsonl"
    trust_file.save(path, add(Trust(), "site", "authority", PrivateKey.generate().public))
    os.mkfifo(archived)

    file, archive = TrustFile(path), Archive(archived)
    path.unlink()
    os.mkfifo(path)
    consumed = 0
    with short_turns():
        assert "site" in file.current().actors
        for number in range(100):
            try:
                archive(Notice(Kind.FORGET, "site", f"a:{number}", "authority", "closed", 1, {"data": "x" * 3000}))
            except Consumed:
                consumed += 1
            await asyncio.sleep(0)
    assert consumed > 50
    archive.close()

    writer = threading.Timer(20, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
    writer.daemon = True
    writer.start()
    writer.cancel()


@pytest.mark.real_time
async def test_a_name_that_is_looked_up_for_long_stops_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = socket.getaddrinfo

    def slow(host: str, *rest: object, **more: object) -> object:
        time.sleep(0.6 if host == "site.invalid" else 0)
        return ask("127.0.0.1", *rest, **more)  # type: ignore[arg-type]

    async def receive(frame: bytes) -> Reply:
        return Reply(Delivery.TAKEN)

    transport = HttpTransport()
    await transport.start(receive)
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with short_turns():
        await transport.send("http://site.invalid:9", b"x")
    await transport.close()


@pytest.mark.real_time
async def test_a_program_that_takes_long_to_begin_stops_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one on a disk that does not answer; its lock and number are files, too."""
    begin = subprocess.Popen.__init__

    def slow(self: object, *rest: object, **more: object) -> None:
        time.sleep(0.6)
        begin(self, *rest, **more)  # type: ignore[arg-type]

    sync = os.fsync

    def slow_sync(handle: int) -> None:
        time.sleep(0.3)
        sync(handle)

    handler = CommandHandler(directory=tmp_path / "locks", setup="true")
    monkeypatch.setattr(subprocess.Popen, "__init__", slow)
    monkeypatch.setattr(os, "fsync", slow_sync)
    with short_turns():
        assert (await handler.act(action())).well


def test_the_log_of_configure_is_written_when_it_is_flushed(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        logs.configure("text", "info")
        (made,) = [handler for handler in root.handlers if handler not in before]
        logging.getLogger("leasehold.test").info("a line")
        made.flush()
        assert capsys.readouterr().err.rstrip().endswith("a line")
    finally:
        for handler in [handler for handler in root.handlers if handler not in before]:
            root.removeHandler(handler)
            handler.close()
