"""Ports, disks and networks that programs of this machine make."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.recovery.processes import resources
from leasehold.checker.recovery.processes.resources import (
    LoopDisk,
    NetworkNamespace,
    PortAllocator,
    TmpfsDisk,
    Unavailable,
    program,
    run_program,
)


def test_each_port_is_handed_out_once_and_none_at_which_somebody_listens() -> None:
    ports = PortAllocator()
    some = [ports.take() for _ in range(5)]
    assert len({*some}) == 5
    assert all(21_000 <= port < 31_000 for port in some)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", some[-1] + 1))
        taken.listen()
        assert ports.take() > some[-1] + 1


def test_where_no_port_is_free_none_is_handed_out() -> None:
    last = PortAllocator().take()
    ports = PortAllocator(last - os.getpid() % 97 * 100, last + 1)
    assert ports.take() == last
    busy = [socket.create_server(("127.0.0.1", last))]
    try:
        ports._ports = iter([last] * 10)
        with pytest.raises(OSError, match="no port is free"):
            ports.take()
    finally:
        busy[0].close()


def test_what_a_program_says_and_how_it_fails() -> None:
    assert run_program("echo", "a", "b") == "a b\n"
    assert run_program("pwd") == "/\n"
    for words, reason in (
        (("no-such-program", "x"), "^no-such-program is not installed"),
        (("sh", "-c", "echo why >&2; exit 3"), "^sh fails: why"),
        (("sh", "-c", "echo why; exit 3"), "^sh fails: why"),
        (("sleep", "30"), "^sleep: .*timed out"),
    ):
        with pytest.raises(Unavailable, match=reason):
            run_program(*words, limit_seconds=0.3)
    with pytest.raises(Unavailable, match="no-such-program is not installed"):
        program("no-such-program")
    assert Path(program("sh")).name == "sh"


def test_a_disk_in_memory_can_be_full(tmp_path: Path) -> None:
    try:
        disk = TmpfsDisk(tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    file = disk.path / "file"
    try:
        file.write_bytes(b"1" * 5000)
        disk.fill()
        with pytest.raises(OSError, match="No space") as full:
            (disk.path / "more").write_bytes(b"2")
        assert full.value.errno == errno.ENOSPC
        disk.empty()
        file.write_bytes(b"3" * 10_000)
        disk.remount("ro")
        with pytest.raises(OSError, match="Read-only"):
            file.write_bytes(b"4")
        disk.remount("rw")
        file.write_bytes(b"5")
    finally:
        disk.unmount()
    assert not file.exists()
    disk.unmount()


def test_a_disk_that_loses_power_keeps_what_was_synced(tmp_path: Path) -> None:
    try:
        disk = LoopDisk(tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        synced = os.open(disk.path / "synced", os.O_WRONLY | os.O_CREAT)
        os.write(synced, b"1")
        os.fsync(synced)
        os.close(synced)
        folder = os.open(disk.path, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        (disk.path / "lost").write_bytes(b"2")
        disk.lose_power()
        with pytest.raises(OSError, match="rror"):
            (disk.path / "more").write_bytes(b"3")
        disk.unmount()
        disk.mount()
        assert (disk.path / "synced").read_bytes() == b"1"
        assert not (disk.path / "more").exists()
        assert not (disk.path / "lost").exists() or (disk.path / "lost").read_bytes() in (b"", b"2")
    finally:
        disk.unmount()


# Resources that the kernel makes


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Programs that would have been run."""
    found: list[str] = []

    def run(*words: str, **options: Any) -> str:
        found.append(" ".join(words))
        return (
            "counter packets 12 bytes 3" if words[-1] == "leasehold" and "list" in words and "rule" in found[-2] else ""
        )

    monkeypatch.setattr(resources, "run_program", run)
    monkeypatch.setattr(resources, "program", lambda name: f"/bin/{name}")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return found


def test_a_network_is_a_namespace_with_a_cable_and_chains_for_both_ways(ran: list[str]) -> None:
    one, other = NetworkNamespace(), NetworkNamespace()
    assert one.prefix == ["/bin/ip", "netns", "exec", one.name]
    made = [words for words in ran if one.name in words]
    near, far = made[1].split()[3], made[1].split()[8]
    assert made[:6] == [
        f"ip netns add {one.name}",
        f"ip link add {near} type veth peer name {far} netns {one.name}",
        f"ip -netns {one.name} address add {one.inside}/30 dev {far}",
        f"ip -netns {one.name} link set {far} up",
        f"ip -netns {one.name} link set lo up",
        f"/bin/ip netns exec {one.name} /bin/nft add table inet leasehold",
    ]
    assert f"ip address add {one.outside}/30 dev {near}" in ran
    assert f"ip link set {near} up" in ran
    assert [words.partition("/bin/nft ")[2] for words in made[6:]] == [
        "add chain inet leasehold in { type filter hook input priority 0; }",
        "add chain inet leasehold out { type filter hook output priority 0; }",
    ]
    assert max(len(near), len(far)) < 16, "names of interfaces are short"
    assert near != far
    hosts = [address.rpartition(".") for address in (one.outside, one.inside, other.outside, other.inside)]
    assert len({network for network, _, _ in hosts}) == 1
    numbers = [int(host) for _, _, host in hosts]
    assert [n % 4 for n in numbers] == [1, 2, 1, 2], "the two hosts of a network of four addresses"
    assert len({*numbers}) == 4
    assert one.name != other.name
    ran.clear()
    one.remove()
    assert ran == [f"ip netns delete {one.name}"]


def test_what_a_network_has_lost_counts_after_it_was_mended(ran: list[str]) -> None:
    network = NetworkNamespace()
    assert not network.lost()
    ran.clear()
    network.lose("deaf")
    network.mend()
    assert [words.partition("/bin/nft ")[2] for words in ran] == [
        "add rule inet leasehold in counter drop",
        "list table inet leasehold",
        "flush table inet leasehold",
    ]
    assert network.lost()


def test_a_network_that_cannot_be_made_leaves_nothing(ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str, **options: Any) -> str:
        ran.append(" ".join(words))
        if "veth" in words:
            raise Unavailable("no cables")
        return ""

    monkeypatch.setattr(resources, "run_program", run)
    with pytest.raises(Unavailable, match="no cables"):
        NetworkNamespace()
    assert ran[-1].startswith("ip netns delete lh")


@pytest.mark.parametrize("make", [lambda folder: NetworkNamespace(), TmpfsDisk, LoopDisk])
def test_only_root_has_networks_and_disks(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Unavailable, match="only root may "):
        make(tmp_path)


def test_a_disk_is_made_once_and_mounted_as_often_as_it_is_back(ran: list[str], tmp_path: Path) -> None:
    disk = LoopDisk(tmp_path)
    disk.unmount()
    disk.mount()
    image, path = tmp_path / "disk.image", tmp_path / "disk"
    assert ran == [
        f"mkfs.ext4 -q -F {image}",
        f"mount -o loop {image} {path}",
        f"umount -l {path}",
        f"mount -o loop {image} {path}",
    ]
    assert (image.stat().st_size, path.stat().st_mode & 0o777) == (24 << 20, 0o700)
