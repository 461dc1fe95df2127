"""The observer sees whatever a handler makes, in a world of its own and nowhere else."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from leasehold.checker.handlers.harness import Stage
from leasehold.checker.handlers.observer import NOBODY, SETTLED, Key, Names, Thing, WorldObserver, WorldSnapshot
from leasehold.checker.handlers.player import Play, PlayerSetting
from leasehold.checker.handlers.sequence import HandlerStep, Sequence
from leasehold.checker.handlers.target import target_of
from leasehold.checker.handlers.world import World

GROUPS = Path("/sys/fs/cgroup/pids")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for worlds of their own")
has_ip = pytest.mark.skipif(shutil.which("ip") is None, reason="needs ip, of iproute2")

SCRIPT = """#!/bin/bash
set -eu
unit=$LEASEHOLD_UNIT
{does}
"""


def shape(does: str, folder: Path, isolate: bool | None = None) -> Counter[Key]:
    """The things that a setup by a script has made, none of which is there when the world is over."""
    script = folder / "node.sh"
    script.write_text(SCRIPT.format(does=does))
    script.chmod(0o755)
    setting = PlayerSetting(target_of(str(script), ("setup",)), "hxyz", 2, 20.0)
    with Stage(str(folder), isolate) as stage:
        played = stage.play(Play(setting, Sequence((HandlerStep("setup"),)), learn=True))
    assert not played.broken
    assert not played.findings, played.findings
    ((found, _),) = played.shapes
    return Counter({key: n for key, n in found.items() if "units" not in key[2]})


@needs_root
@has_ip
def test_networks_and_their_addresses(tmp_path: Path) -> None:
    found = shape(
        'ip netns add "$unit"; ip link add "$unit" type veth peer name inner netns "$unit"\n'
        'ip -n "$unit" addr add 10.9.8.7/24 dev inner; ip -n "$unit" link set inner up\n'
        'ip addr add 10.9.8.1/24 dev "$unit"; ip link set "$unit" up\n'
        'ip -br addr show lo | grep -q 127.0.0.1 && touch /srv/"$unit"\n'
        '[ "$(ls /sys/class/net | sort | xargs)" = "$unit lo" ]; [ -n "$(ls /sys/fs/cgroup)" ]',
        tmp_path,
    )
    assert found["network namespace", 0, "{unita}"] == 1
    assert found["link", 0, "{unita}/inner"] == 1
    assert found["link", 0, "{unita}"] == 1
    assert found["address", 0, "{unita} #.#.#.#"] == 1
    assert found["address", NOBODY, "host #.#.#.#"] == 1, "and not that of the loopback link, which is up"
    assert found["file", 0, "/srv/{unita}"] == 1
    names = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    assert "hxyzu" not in names


@needs_root
def test_mounts_devices_and_files_anywhere(tmp_path: Path) -> None:
    found = shape(
        'mkdir -p /srv/"$unit"; mount -t tmpfs leasehold /srv/"$unit"; echo 1 >/srv/"$unit"/inner\n'
        'echo 2 >/etc/"$unit".conf\n'
        'truncate -s 1M "/tmp/$unit.img"; losetup -f "/tmp/$unit.img"; echo changed >>/etc/hostname; rm -f /etc/passwd',
        tmp_path,
    )
    assert found["mount", 0, "/srv/{unita} (tmpfs)"] == 1
    assert found["file", 0, "/srv/{unita}/inner"] == 1
    assert found["file", 0, "/etc/{unita}.conf"] == 1
    assert found["loop device", 0, "/tmp/{unita}.img"] == 1
    assert found["changed file", NOBODY, "/etc/hostname"] == 1
    assert found["removed file", NOBODY, "/etc/passwd"] == 1
    assert Path("/etc/passwd").read_text(), "only the world's own was removed"
    assert not Path("/etc/hxyzu1.conf").exists()
    devices = [*Path("/sys/block").glob("loop*/loop/backing_file")]
    assert not [one for one in devices if "hxyzu1" in one.read_text()], "it is detached when the world ends"


@pytest.mark.parametrize("isolate", [pytest.param(None, marks=needs_root), False])
def test_processes_that_have_left_their_session(isolate: bool | None, tmp_path: Path) -> None:
    """By their environment, folder or parent; also those that dropped all of these are somebody's."""
    found = shape(
        'mkdir "$unit"; (cd "$unit"; env -i setsid sleep 300 </dev/null >/dev/null 2>&1 &)\n'
        "(setsid sh -c 'sleep 301; true' </dev/null >/dev/null 2>&1 &)\n"
        "(cd /; env -i setsid sleep 302 </dev/null >/dev/null 2>&1 &)",
        tmp_path,
        isolate,
    )
    assert found["process", 0, "sleep #"] == 2
    assert found["process", 0, "sh -c sleep #; true"] == 1
    assert found["process", NOBODY, "sleep #"] == 1
    assert not subprocess.run(["pgrep", "-f", "^sleep 30[012]$"], capture_output=True, check=False).stdout


@needs_root
def test_control_groups_of_a_unit(tmp_path: Path) -> None:
    place = next((str(p) for p in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if p.is_dir()), "")
    probe = Path(place, "hxyz-probe")
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        pytest.skip("control groups cannot be made here")
    found = shape(f'mkdir {place}/"$unit"', tmp_path)
    assert found["control group", 0, f"{place}/{{unita}}"] == 1
    assert not Path(place, "hxyzu1").exists()


def test_names_are_those_of_one_unit_and_without_what_differs() -> None:
    names = Names([["au0", "x/unit[0]"], ["au1"]], {"at": "{lease}"})
    assert names.unit_of("vol-au0.img") == 0
    assert names.unit_of("x/unit[0]") == 0
    assert names.unit_of("au0 au1") == NOBODY
    assert names.unit_of("vol-au01.img") == NOBODY, "another unit, whose name begins with this one"
    assert names.unit_of("nothing") == NOBODY
    assert names.plain("/tmp/tmp.Xy12abcdEF au1 17 at:5") == "/tmp/tmp* {unitb} # {lease}:#"


@needs_root
@pytest.mark.skipif(not GROUPS.is_dir(), reason="needs control groups of version 1")
@pytest.mark.real_time
def test_control_groups_do_not_outlive_a_world_though_their_processes_go_on(tmp_path: Path) -> None:
    """The next world would take them for what was there before."""
    group = GROUPS / "lh-hxyzu1-limits"
    does = f"mkdir -p {group}/inner && (setsid sleep infinity & echo $! >{group}/inner/cgroup.procs) >/dev/null 2>&1"
    for _ in range(2):
        found = shape(does, tmp_path)
        assert sum(n for key, n in found.items() if key[0] == "control group") == 2
        assert not group.exists()


def test_a_file_that_has_changed_is_read_again_whatever_its_size_and_its_date(tmp_path: Path) -> None:
    observer = WorldObserver(World(False, str(tmp_path), str(tmp_path), os.getpid()), Names([["u-0"]]))
    file = tmp_path / "data"

    def digest() -> str:
        return observer._content(str(file), os.lstat(file))[0]

    def changes(count: int) -> int:
        """The number of contents that are seen of so many, each written a moment after the last was looked at."""
        seen = set()
        for number in range(count):
            status = os.stat(file) if file.exists() else None
            file.write_text(f"{number:05}")
            if status is not None:
                os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            seen.add(digest())
        return len(seen)

    assert changes(200) == 200
    time.sleep(SETTLED + 0.1)
    assert len({digest(), digest()}) == 1
    assert observer._read, "it is not read again while nobody has changed it"
    assert changes(2) == 2


def test_the_size_of_a_file_does_not_depend_on_how_many_digits_its_numbers_have() -> None:
    def size(text: str, cut: int = 0) -> list[int]:
        body = text[: len(text) - cut]
        thing = Thing("file", "/made/u-0/state.json", 0, f"100000 {len(body)} 0", body)
        return [*WorldSnapshot([thing], Names([["u-0"]])).sizes(100).values()]

    padding = " " * 200
    assert size(f'{{"pid": 99, "at": 1}}{padding}') == size(f'{{"pid": 10001, "at": 123}}{padding}')
    assert size(f'{{"pid": 99}}{padding}') != size(f'{{"pid": 99}}{padding}', cut=1)
    volume = Thing("file", "/made/u-0/volume", 0, "100000 8192 0", "")
    assert [*WorldSnapshot([volume], Names([["u-0"]])).sizes(4096).values()] == [8192]
