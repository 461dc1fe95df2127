"""Programs that drivers run: their words, their wants, and that none outlives its action."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from leasehold.impl.drivers import tools
from leasehold.impl.drivers.driver import quantity_of, rate_of, size_of
from leasehold.impl.drivers.tools import ToolFailed, Tools, end_leftovers, lacking
from leasehold.impl.handlers import processes
from leasehold.impl.handlers.handler import HandlerError, NotBegun
from leasehold.impl.handlers.place import TOKEN, Cancelled, UnitDirectory
from tests.waiting import wait_until


@pytest.fixture
def place(tmp_path: Path) -> UnitDirectory:
    made = UnitDirectory(tmp_path / "u-0")
    made.make()
    return made


def test_the_output_and_the_last_words_of_a_program(place: UnitDirectory, tmp_path: Path) -> None:
    run = Tools(place).run
    assert run("sh", "-c", "echo one; echo two >&2") == "one\n"
    with pytest.raises(ToolFailed, match=r"sh -c .* ended with code 3; it said: last") as failed:
        run("sh", "-c", "echo out; echo first >&2; echo last >&2; exit 3")
    assert (failed.value.code, failed.value.words) == (3, "first\nlast")
    assert run("sh", "-c", "echo x; exit 3", ends_with=(0, 3)) == "x\n"
    assert run("sh", "-c", "echo x; echo y >&2", output=tmp_path / "log") == ""
    assert (tmp_path / "log").read_text() == "x\ny\n"
    with (tmp_path / "log").open("rb") as given:
        assert run("cat", input=given) == "x\ny\n"
    with pytest.raises(HandlerError, match="certainly-not-there is missing"):
        run("certainly-not-there")


def test_a_want_of_space_or_memory_is_none_of_the_program_s_failures(place: UnitDirectory) -> None:
    for words in ("cp: cannot write: No space left on device", "fork: Cannot allocate memory"):
        with pytest.raises(NotBegun, match=words):
            Tools(place).run("sh", "-c", f"echo '{words}' >&2; exit 1", may_wait=True)
        with pytest.raises(ToolFailed):
            Tools(place).run("sh", "-c", f"echo '{words}' >&2; exit 1")


def test_a_program_has_the_lock_and_the_token_of_its_unit_and_ends_with_its_action(place: UnitDirectory) -> None:
    stop = threading.Event()
    lock = end_leftovers(place, Tools(place))
    own = Tools(place, lock, stop)
    words = own.run("sh", "-c", f"echo ${TOKEN}; readlink /proc/self/fd/*; echo $PATH").splitlines()
    assert words[0] == place.token
    assert str(place.folder / "lock") in words
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(Cancelled):
        own.run("sh", "-c", "sleep 600 & sleep 600")
    os.close(lock)
    wait_until(lambda: not place.members())
    with pytest.raises(Cancelled):
        own.run("true")


def test_what_an_actor_has_left_at_work_is_ended_by_its_token_or_its_lock(
    place: UnitDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = end_leftovers(place, Tools(place))
    bare = subprocess.Popen(["sleep", "600"], pass_fds=(lock,), env={}, start_new_session=True)
    os.close(lock)
    assert place.try_lock() is None
    monkeypatch.setattr(tools, "KILL_LIMIT", 0.2)
    with pytest.raises(HandlerError, match="keeps the lock"):
        end_leftovers(place, Tools(place))  # a child of this process is none that an actor has left
    monkeypatch.setattr(tools, "KILL_LIMIT", 10.0)
    bare.kill()
    bare.wait()
    orphan = f"sleep 600 & echo $! >{place.folder}/pid"
    lock = end_leftovers(place, Tools(place))
    subprocess.run(["setsid", "sh", "-c", orphan], pass_fds=(lock,), env={"PATH": tools.PATH}, check=True)
    os.close(lock)
    began = time.monotonic()
    os.close(end_leftovers(place, Tools(place)))
    assert time.monotonic() - began < 5
    seen = processes.look(int((place.folder / "pid").read_text()))
    assert seen is None or seen.gone


def test_each_program_has_its_package() -> None:
    assert lacking("sh") == ""
    for program, package in tools.PACKAGES.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tools, "PATH", "/nonexistent")
            assert lacking(program) == f"{program} is missing; `apt install {package}` brings it"


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 64 << 20), ("2GB", 2 * 10**9), (77, 77), ("77", 77), ("1.5 KiB", 1536), ("1kB", 1000), ("1T", 10**12)],
)
def test_sizes(text: int | str, size: int) -> None:
    assert size_of(text, "size") == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1 PiB", True, "1e3", "0x10", "1MiBs"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(HandlerError, match="is no size; write it as 64MiB"):
        size_of(text, "size")


def test_rates_and_quantities() -> None:
    assert [rate_of(text, "r") for text in ("10Mbit", "1.5kbit/s", 8, "1Gbps")] == [10**7, 1500, 8, 10**9]
    for text in ("fast", "10MiB", "-1bit"):
        with pytest.raises(HandlerError, match="is no rate"):
            rate_of(text, "r")
    assert [quantity_of(q, "q") for q in (0.5, "0.5", "1KiB", "1Mbit")] == [0.5, 0.5, 1024.0, 1e6]
