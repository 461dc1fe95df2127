"""Containers by themselves: copies and layers of an image, names, links of a guest, and what runc leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.drivers.images import Images
from leasehold.impl.drivers.tools import Tools
from leasehold.impl.handlers import processes
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.handlers.place import UnitDirectory
from tests.impl.drivers.machine import needs, said, seen
from tests.impl.drivers.one import One

pytestmark = needs("runc", "busybox")
SLEEP = {"image": "small", "command": ["/bin/sleep", "1000"]}


@pytest.fixture
def directory(image: dict[str, Any], tmp_path: Path) -> Path:
    """The image, unpacked."""
    return Images(tmp_path / "unpacked", {"small": image}).root("small", Tools(UnitDirectory(tmp_path)))


def made(units: Path, image: dict[str, Any]) -> One:
    return One(units, "container", images={"small": image})


def run(one: One, *command: str) -> str:
    return said("runc", "--root", one.units / ".runc", "exec", one.name, *command)


@pytest.mark.parametrize("root", ["overlay", "copy"])
def test_a_container_has_a_layer_or_a_copy_of_its_image_which_stays_as_it_is(
    units: Path, directory: Path, root: str
) -> None:
    one = made(units, {"directory": str(directory)})
    before = said("find", directory)
    pid = one.create(**SLEEP, root=root)["pid"]
    assert run(one, "sh", "-c", "echo mine >/etc/own; rm /bin/dd; cat /etc/own") == "mine\n"
    assert said("find", directory) == before
    assert one.create(**SLEEP, root=root)["pid"] == pid
    os.kill(pid, 9)
    assert one.create(**SLEEP, root=root)["pid"] != pid
    assert run(one, "cat", "/etc/own") == "mine\n", "what it has written is there after a repair"
    one.destroy(**SLEEP, root=root)
    assert one.probe(**SLEEP, root=root) is None
    assert {*seen(units)} <= {"files"}


def test_a_container_without_a_network_has_none_and_few_rights(units: Path, image: dict[str, Any]) -> None:
    one = made(units, image)
    one.create(**SLEEP, readonly=True, environment={"A": "b c"}, capabilities=["CAP_CHOWN"])
    assert "eth0" not in run(one, "ip", "addr")
    assert run(one, "sh", "-c", "echo x >/etc/own || echo refused").endswith("refused\n")
    environment = run(one, "sh", "-c", "cat /proc/1/environ").split("\0")
    assert "A=b c" in environment
    assert not [line for line in environment if line.startswith("LEASEHOLD")]
    rights = dict(line.split(":\t") for line in run(one, "cat", "/proc/1/status").splitlines() if ":\t" in line)
    assert int(rights["CapEff"], 16) & 1, "CAP_CHOWN"
    assert not int(rights["CapEff"], 16) & (1 << 21 | 1 << 12), "CAP_SYS_ADMIN and CAP_NET_ADMIN"
    assert rights["NoNewPrivs"] == "1"
    one.destroy(**SLEEP)


def test_a_link_that_the_guest_has_left_leads_no_file_out_of_it(
    units: Path, image: dict[str, Any], tmp_path: Path
) -> None:
    """The guest is root within, and replaces the folder of a file that the site writes."""
    one, outside = made(units, image), tmp_path / "outside"
    outside.mkdir()
    given = {**SLEEP, "files": {"/etc/motd": "one"}}
    one.create(**given)
    assert run(one, "cat", "/etc/motd") == "one\n"
    run(one, "sh", "-c", f"rm -r /etc; ln -s {outside} /etc")
    with pytest.raises(HandlerError, match="etc on the way to /etc/motd is no folder, or a link"):
        one.modify(**{**given, "files": {"/etc/motd": "two"}})
    assert list(outside.iterdir()) == []
    one.destroy(**given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"image": "smal"}, "there is no image 'smal'; did you mean small"),
        ({"command": []}, "command: is empty"),
        ({"command": ["/bin/nothing"]}, "runc: .*nothing"),
        ({"command": ["/bin/sh", "-c", "echo no disk; exit 3"]}, "has ended at once; its last words: no disk"),
        ({"hostname": "a b"}, "hostname: 'a b' is no name of a host"),
        ({"volume": "/nonexistent"}, "volume: /nonexistent is no folder"),
        ({"root": "link"}, "Invalid enum value 'link'"),
        ({"files": {"/../x": ""}}, "is no path of a file"),
        ({"cgroup": 5}, "Expected `str`"),
    ],
)
def test_what_cannot_be_is_told_and_can_be_removed(
    units: Path, image: dict[str, Any], given: dict[str, Any], words: str
) -> None:
    one = made(units, image)

    def create_until_it_has_ended() -> None:
        for _ in range(100):
            one.create(**{**SLEEP, **given})

    with pytest.raises(HandlerError, match=words):
        create_until_it_has_ended()
    one.destroy(**SLEEP)
    assert {*seen(units)} <= {"files"}


def test_what_runc_leaves_half_made_is_deleted(units: Path, image: dict[str, Any]) -> None:
    """A container that was created and not started; a folder of state without a state; a paused one."""
    one = made(units, image)
    first = one.create(**SLEEP)["pid"]
    runc = ("runc", "--root", units / ".runc")
    said(*runc, "delete", "--force", one.name)
    with open(os.devnull, "r+") as nothing:
        bundle = units / "u-0/container/bundle"
        command = [*map(str, runc), "create", "--bundle", str(bundle), one.name]
        subprocess.run(command, stdin=nothing, stdout=nothing, stderr=nothing, check=True)
    found = one.probe(**SLEEP)
    assert found is not None
    assert (found.up, "created" in found.words) == (False, True)
    second = one.create(**SLEEP)["pid"]
    assert second != first
    said(*runc, "pause", one.name)
    found = one.probe(**SLEEP)
    assert found is not None
    assert not found.up
    one.create(**SLEEP)
    one.destroy(**SLEEP)
    (units / ".runc" / one.name).mkdir()
    one.create(**SLEEP)
    found = one.probe(**SLEEP)
    assert found is not None
    assert found.up
    one.destroy(**SLEEP)
    assert os.listdir(units / ".runc") == []


@pytest.mark.parametrize("again", [False, True])
def test_a_container_whose_state_the_runtime_has_lost_is_removed_all_the_same(
    units: Path, image: dict[str, Any], again: bool
) -> None:
    """runc does not flush it, so after a failure of the power or the disk its file may be empty."""
    one = made(units, image)
    pid = one.create(**SLEEP)["pid"]
    (units / ".runc" / one.name / "state.json").write_bytes(b"")
    assert not one.probe(**SLEEP).up
    if again:
        assert one.create(**SLEEP)["pid"] != pid
        assert one.probe(**SLEEP).up
    one.destroy(**SLEEP)
    assert (left := processes.look(pid)) is None or left.gone
    assert {*seen(units)} <= {"files"}


@needs("bindfs")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_container_whose_image_is_on_a_file_system_that_is_gone_is_not_up_and_is_made_anew(
    units: Path, directory: Path, tmp_path: Path, how: signal.Signals
) -> None:
    """Table 2, row 2: a network file system whose server dies, or hangs."""
    point = tmp_path / "shared"
    point.mkdir()
    with served(directory, point) as server:
        one = made(units, {"directory": str(point)})
        pid = one.create(**SLEEP)["pid"]
        assert one.probe(**SLEEP).up
        server.send_signal(how)
        began, found = time.monotonic(), one.probe(**SLEEP)
        assert not found.up
        assert "whose root is gone" in found.words
        assert time.monotonic() - began < 10
        with pytest.raises(HandlerError, match=r"image small: .*(does not answer within 2 s|not connected)"):
            one.create(**SLEEP)
        server.send_signal(signal.SIGCONT)
        server.kill()
    with served(directory, point):
        assert not one.probe(**SLEEP).up, "the layer is of the file system that is gone"
        assert one.create(**SLEEP)["pid"] != pid
        assert one.probe(**SLEEP).up
        one.destroy(**SLEEP)
    assert {*seen(units)} <= {"files"}


@contextmanager
def served(source: Path, point: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A file system that a process serves."""
    with subprocess.Popen(["bindfs", "-f", "-r", source, point]) as server:
        try:
            while not os.path.ismount(point):
                assert server.poll() is None
                time.sleep(0.02)
            yield server
        finally:
            server.kill()
            server.wait()
            subprocess.run(["umount", "-l", point], check=False, capture_output=True)
