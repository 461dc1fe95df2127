"""Units that are composed of a volume, a network, limits and a container, with the system's own tools for witnesses."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.drivers.composed import ComposedHandler, read_made
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, NotBegun, Stale
from leasehold.impl.handlers.place import Cancelled, UnitDirectory
from leasehold.impl.policy import plugins
from tests.impl.drivers.machine import action, needs, network, said, seen

pytestmark = [needs("runc", "mkfs.ext4", "ip", "busybox"), pytest.mark.real_time]


def server(units: Path, bridge: str, image: dict[str, Any]) -> dict[str, Any]:
    """The configuration of virtual servers, with the properties of Table 4."""
    return {
        "directory": str(units),
        "images": {"small": image},
        "snapshots": {"quota": "40MiB"},
        "properties": {
            "image.id": {"from": "holder", "default": "small", "among": ["small"]},
            "admin.key": {"from": "holder", "default": ""},
            "host.prefix": {"from": "holder", "default": "node", "pattern": "[a-z]{1,20}"},
            "machine.memory": {"from": "broker", "default": "64MiB", "most": "256MiB"},
            "machine.cpus": {"from": "broker", "default": 0.5},
            "net.rate": {"from": "site", "default": "100Mbit"},
            "disk.size": {"from": "broker", "default": "16MiB"},
            "disk.keep": {"from": "holder", "default": ""},
            "disk.restore": {"from": "holder", "default": ""},
        },
        "parts": [
            {"volume": {"size": "{disk.size}", "keep": "{disk.keep}", "restore": "{disk.restore}"}},
            {"network": {"bridge": bridge, "subnet": f"{network(bridge)}.0/24", "bandwidth": "{net.rate}"}},
            {"cgroup": {"memory": "{machine.memory}", "cpus": "{machine.cpus}", "processes": 64}},
            {
                "container": {
                    "image": "{image.id}",
                    "command": ["/bin/sh", "-c", "while :; do nc -l -p 80 -e /bin/cat /etc/motd; done"],
                    "volume": "{volume.path}",
                    "namespace": "{network.namespace}",
                    "cgroup": "{cgroup.path}",
                    "hostname": "{host.prefix}{index}",
                    "files": {"/root/.ssh/authorized_keys": "{admin.key}", "/etc/motd": "{unit} of {holder}"},
                    "host_key": "/etc/ssh/ssh_host_ed25519_key",
                }
            },
        ],
        "tells": {
            "host.name": "{container.hostname}",
            "host.privIPAddr": "{network.address}",
            "subnet.privNetmask": "{network.netmask}",
            "host.key": "{container.host_key}",
        },
    }


def do(config: Mapping[str, Any], *actions: HandlerAction) -> list[Done]:
    """Does actions with one handler, as one incarnation of an actor would."""
    handler: ComposedHandler = plugins.make("handler", "composed", config)

    async def run() -> list[Done]:
        try:
            return [await handler.act(one) for one in actions]
        finally:
            await handler.close()

    return asyncio.run(run())


def is_up(config: Mapping[str, Any], unit: str = "u-0") -> tuple[bool, str]:
    """Returns whether a unit is up, and what is left of it."""
    handler: ComposedHandler = plugins.make("handler", "composed", config)

    async def run() -> tuple[bool, str]:
        try:
            return await handler.is_up(unit), await handler.left_of(unit)
        finally:
            await handler.close()

    return asyncio.run(run())


def inside(units: Path, *command: str, unit: str = "u-0") -> str:
    """The output of a command in a unit's container."""
    name = f"{json.loads(said('runc', '--root', units / '.runc', 'list', '-f', 'json'))[0]['id']}"
    assert f"-{unit}-" in name
    return said("runc", "--root", units / ".runc", "exec", name, *command)


def test_a_server_has_what_its_holder_and_site_say_of_it_and_is_gone_after_its_lease(
    units: Path, bridge: str, image: dict[str, Any]
) -> None:
    """ORCA report, Table 4: names, addresses and keys go both ways, and the unit answers at its address."""
    config = server(units, bridge, image)
    said_by_holder = {"admin.key": "ssh-ed25519 AAAA admin", "host.prefix": "cats", "unknown": 1}
    done = do(config, action("setup", 1, index=4, configuration=said_by_holder, ticket={"machine.memory": "96MiB"}))[0]
    assert done.well
    told = dict(done.properties)
    key = told.pop("host.key").split()
    assert told == {
        "host.name": "cats4",
        "host.privIPAddr": f"{network(bridge)}.6",
        "subnet.privNetmask": "255.255.255.0",
    }
    assert inside(units, "cat", "/root/.ssh/authorized_keys") == "ssh-ed25519 AAAA admin\n"
    assert inside(units, "cat", "/proc/sys/kernel/hostname") == "cats4\n"
    private = units / "u-0/volume/mounted/upper/etc/ssh/ssh_host_ed25519_key"
    assert said("ssh-keygen", "-y", "-f", private).split()[:2] == key
    assert private.stat().st_mode & 0o077 == 0
    assert said("timeout", "5", "busybox", "nc", f"{network(bridge)}.6", "80") == "u-0 of tenant\n"
    assert is_up(config) == (True, is_up(config)[1])
    machine = seen(units, bridge)
    assert [value for name, value in machine["limits"].items() if "memory" in name] == [str(96 << 20)]
    assert machine["links"][0]["rates"] == [["tbf", 12_500_000]] * 2
    assert machine["loops"] == [str(units / "u-0/volume/disk")]
    assert do(config, action("teardown", 2))[0].well
    assert seen(units, bridge) == {}
    assert is_up(config) == (False, "")


@needs("mkfs.btrfs")
def test_a_server_is_resized_without_a_restart(units: Path, bridge: str, image: dict[str, Any]) -> None:
    config = server(units, bridge, image)
    config["parts"][0]["volume"]["filesystem"] = "btrfs"
    config["properties"]["disk.size"]["default"], config["snapshots"]["quota"] = "256MiB", "1GiB"
    first = do(config, action("setup", 1))[0]
    more = {"machine.memory": "128MiB", "machine.cpus": 1.5, "disk.size": "320MiB"}
    keys = {"admin.key": "another"}
    changed = action("modify", 2, ticket=more, configuration=keys, properties={"net.rate": "50Mbit"})
    second = do(config, changed)[0]
    assert second.facts["container"] == first.facts["container"], "the same process"
    assert inside(units, "cat", "/root/.ssh/authorized_keys") == "another\n"
    machine = seen(units, bridge)
    limits = {name.rpartition("/")[2]: value for name, value in machine["limits"].items()}
    assert limits.get("cpu.cfs_quota_us", limits.get("cpu.max", "")).split()[0] == "150000"
    assert limits.get("memory.limit_in_bytes", limits.get("memory.max")) == str(128 << 20)
    assert machine["links"][0]["rates"] == [["tbf", 6_250_000]] * 2
    assert (units / "u-0/volume/disk").stat().st_size == 320 << 20
    status = os.statvfs(units / "u-0/volume/mounted")
    assert status.f_blocks * status.f_frsize > 300 << 20, "the file system has grown with its file"
    assert (
        do(config, action("setup", 3, ticket=more, configuration=keys))[0].facts["container"]["pid"]
        == (first.facts["container"]["pid"])
    ), "what is as it should be is left alone"


def test_memory_is_kept_from_those_who_want_more_than_their_unit_has(
    units: Path, bridge: str, image: dict[str, Any]
) -> None:
    config = server(units, bridge, image)
    do(config, action("setup", 1, ticket={"machine.memory": "24MiB"}))
    took = inside(units, "sh", "-c", "dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null && echo had it")
    assert took == ""
    do(config, action("modify", 2, ticket={"machine.memory": "200MiB"}))
    took = inside(units, "sh", "-c", "dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null && echo had it")
    assert took == "had it\n"


def test_a_part_that_cannot_be_made_leaves_nothing_of_those_before_it(
    units: Path, bridge: str, image: dict[str, Any]
) -> None:
    config = server(units, bridge, image)
    config["parts"][-1]["container"]["command"] = ["/bin/nothing"]
    with pytest.raises(HandlerError, match=r"runc: .*/bin/nothing"):
        do(config, action("setup", 1))
    assert seen(units, bridge) == {}
    config["images"]["small"] = {**image, "digest": "sha256:" + "0" * 64}
    with pytest.raises(HandlerError, match=r"image small: .* has the digest sha256:.*nothing of it was unpacked"):
        do(config, action("setup", 2))
    assert seen(units, bridge) == {}


def test_what_cannot_be_changed_is_changed_back_in_all_parts(units: Path, bridge: str, image: dict[str, Any]) -> None:
    config = server(units, bridge, image)
    do(config, action("setup", 1))
    before = seen(units, bridge)
    config["parts"][-1]["container"]["files"]["/etc"] = "no file can be here"
    with pytest.raises(HandlerError, match="/etc is a folder there, and no file"):
        do(config, action("modify", 2, ticket={"machine.memory": "128MiB"}))
    assert seen(units, bridge)["limits"] == before["limits"]
    assert is_up(config)[0]


def test_a_part_that_died_is_made_again_and_the_others_stay(units: Path, bridge: str, image: dict[str, Any]) -> None:
    """A repair: the data of the unit are there, and so is its key."""
    config = server(units, bridge, image)
    first = do(config, action("setup", 1))[0]
    inside(units, "sh", "-c", "echo mine >/root/data")
    os.kill(first.facts["container"]["pid"], 9)
    assert is_up(config)[0] is False
    config["images"] = {"small": {"directory": "/nonexistent"}}  # what the site has changed meanwhile counts later
    with pytest.raises(HandlerError, match="nonexistent is no folder"):
        do(config, action("setup", 2, task="site/u-0/repair"))
    assert (units / "u-0/volume/disk").exists(), "what was there before stays"
    config["images"] = {"small": image}
    again = do(config, action("setup", 3, task="site/u-0/repair"))[0]
    assert is_up(config)[0]
    assert inside(units, "cat", "/root/data") == "mine\n"
    assert again.properties == first.properties


def test_a_unit_whose_parts_are_unmounted_unlinked_or_stopped_is_not_up(
    units: Path, bridge: str, image: dict[str, Any]
) -> None:
    config = server(units, bridge, image)
    breaks = [
        lambda: said("ip", "link", "del", seen_link(bridge)),
        lambda: said("ip", "-n", namespaces(units)[0], "addr", "flush", "dev", "eth0"),
        lambda: said("sh", "-c", f"rmdir {seen(units)['groups'][-1]} || kill -9 $(cat {units}/../none)"),
        lambda: said("umount", "-l", units / "u-0/volume/mounted"),
    ]
    for number, broken in enumerate(breaks):
        assert do(config, action("setup", 10 * number + 1))[0].well
        assert is_up(config)[0]
        broken()
        if number != 2:  # a group that is in use cannot be removed by others
            assert not is_up(config)[0], f"break {number}"
            assert is_up(config)[1] != ""
        assert do(config, action("setup", 10 * number + 2))[0].well
        assert is_up(config)[0], f"break {number}"
        do(config, action("teardown", 10 * number + 3))
        assert seen(units, bridge) == {}


def seen_link(bridge: str) -> str:
    """The interface of the unit at its bridge."""
    return str(json.loads(said("ip", "-j", "link", "show", "master", bridge))[0]["ifname"])


def namespaces(units: Path) -> list[str]:
    found: list[str] = seen(units)["namespaces"]
    return found


def test_units_are_set_up_in_parallel_and_reach_each_other(units: Path, bridge: str, image: dict[str, Any]) -> None:
    config = server(units, bridge, image)
    handler: ComposedHandler = plugins.make("handler", "composed", config)

    async def run(verb: str, number: int) -> list[Done]:
        actions = [action(verb, number, f"tenant:{n}", f"u-{n}", n) for n in range(4)]
        return await asyncio.gather(*map(handler.act, actions))

    async def all_of_it() -> None:
        done = await run("setup", 1)
        addresses = [one.properties["host.privIPAddr"] for one in done]
        assert addresses == [f"{network(bridge)}.{n + 2}" for n in range(4)]
        namespace = namespaces(units)[0]
        for n in range(4):
            asked = ("timeout", "5", "busybox", "nc", f"{network(bridge)}.{n + 2}", "80")
            assert said("ip", "netns", "exec", namespace, *asked) == f"u-{n} of tenant\n"
        await run("teardown", 2)
        await handler.close()

    asyncio.run(all_of_it())
    assert seen(units, bridge) == {}


def test_what_was_being_written_when_somebody_was_killed_goes_with_the_unit(
    units: Path, bridge: str, image: dict[str, Any]
) -> None:
    config = server(units, bridge, image) | {"parts": [{"cgroup": {"processes": 8}}], "tells": {}}
    do(config, action("setup", 1))
    for name in ("token.123.456", "made.json.new", "wanted.json.new"):
        (units / "u-0" / name).write_text("{")
    do(config, action("setup", 2))
    assert do(config, action("teardown", 3))[0].well
    assert sorted(path.name for path in (units / "u-0").iterdir()) == ["guard", "lock", "token", "wanted.json"]


def test_parts_are_written_down_before_they_are_begun_and_when_all_are_up(
    units: Path, bridge: str, image: dict[str, Any]
) -> None:
    """An action that is killed at any point has told of all parts that may be there."""
    parts = [{"as": "one", "cgroup": {"processes": 8}}, {"as": "two", "cgroup": {"processes": 9}}]
    config = server(units, bridge, image) | {"parts": parts, "tells": {}, "properties": {}, "images": {}}
    told: dict[str, list[tuple[str, bool]]] = {}

    def at(point: str) -> None:
        made = read_made(UnitDirectory(units / "u-0"))
        told[point] = [(part.name, part.facts is not None) for part in made.parts]

    handler = plugins.make("handler", "composed", config | {"at": at})
    handler.do(action("setup", 1), threading.Event())
    assert told["wanted"] == []
    assert told["one listed"] == [("one", False)]
    assert told["two listed"] == [("one", True), ("two", False)]
    assert told["whole"] == [("one", True), ("two", True)]
    handler.do(action("teardown", 2), threading.Event())


def test_a_unit_of_another_lease_is_removed_first(units: Path, bridge: str, image: dict[str, Any]) -> None:
    config = server(units, bridge, image)
    do(config, action("setup", 1))
    inside(units, "sh", "-c", "echo secret >/root/data")
    do(config, action("setup", 2, "other:1"))
    assert inside(units, "ls", "/root") == ""


def test_an_older_action_is_refused_and_changes_nothing(units: Path, bridge: str, image: dict[str, Any]) -> None:
    config = server(units, bridge, image)
    do(config, action("setup", 5))
    before = seen(units, bridge)
    for verb in ("setup", "modify", "teardown"):
        with pytest.raises(Stale, match=r"action 4 on u-0 is older than action 5"):
            do(config, action(verb, 4))
    assert seen(units, bridge) == before
    do(config, action("teardown", 6))
    with pytest.raises(Stale):
        do(config, action("setup", 5))
    assert seen(units, bridge) == {}


def test_what_a_holder_says_beyond_its_site_s_permission_is_refused_before_anything_is_made(
    units: Path, bridge: str, image: dict[str, Any]
) -> None:
    config = server(units, bridge, image)
    for said_by, words in [
        (
            {"configuration": {"image.id": "../../etc"}},
            "the holder of tenant:1 says image.id: .* the site permits small",
        ),
        (
            {"ticket": {"machine.memory": "1GiB"}},
            "the broker of tenant:1 says machine.memory: '1GiB', and .* 256MiB at",
        ),
        ({"configuration": {"host.prefix": "a b"}}, "permits what matches"),
        ({"configuration": {"disk.keep": "../x"}}, "keep: '../x' is no name of a snapshot"),
        ({"configuration": {"disk.keep": "x"}, "ticket": {"disk.size": "64MiB"}}, "may not fit into the quota"),
    ]:
        with pytest.raises(HandlerError, match=words):
            do(config, action("setup", 1, **said_by))
        assert seen(units, bridge) == {}
    do(config, action("setup", 2, configuration={"net.rate": "1Gbit", "machine.memory": "1GiB"}))
    machine = seen(units, bridge)
    assert machine["links"][0]["rates"] == [["tbf", 12_500_000]] * 2, (
        "a holder's word counts only where it is asked for"
    )


def test_a_volume_is_kept_for_a_later_lease_of_its_holder_alone(
    units: Path, bridge: str, image: dict[str, Any]
) -> None:
    config = server(units, bridge, image)
    do(config, action("setup", 1, configuration={"disk.keep": "work"}))
    inside(units, "sh", "-c", "echo results >/root/data")
    kept = do(config, action("teardown", 2))[0]
    assert "snapshot work is kept" in kept.words
    assert seen(units, bridge) == {"files": [".snapshots/tenant/work"]}
    with pytest.raises(HandlerError, match="restore: other has no snapshot 'work'"):
        do(config, action("setup", 3, "other:7", configuration={"disk.restore": "work"}))
    for number, lease in ((4, "tenant:2"), (6, "tenant:3")):
        do(config, action("setup", number, lease, configuration={"disk.restore": "work"}))
        assert inside(units, "cat", "/root/data") == "results\n"
        inside(units, "sh", "-c", "echo changed >/root/data")
        do(config, action("teardown", number + 1, lease))
    assert seen(units, bridge) == {"files": [".snapshots/tenant/work"]}, "what was given is a clone"


def test_a_setup_that_fails_does_not_overwrite_what_was_kept(units: Path, bridge: str, image: dict[str, Any]) -> None:
    config = server(units, bridge, image)
    keep = {"disk.keep": "work"}
    do(config, action("setup", 1, configuration=keep))
    inside(units, "sh", "-c", "echo results >/root/data")
    do(config, action("teardown", 2))
    broken = server(units, bridge, image)
    broken["parts"][-1]["container"]["command"] = ["/bin/nothing"]
    with pytest.raises(HandlerError):
        do(broken, action("setup", 3, configuration=keep))
    do(config, action("setup", 4, "tenant:2", configuration={"disk.restore": "work"}))
    assert inside(units, "cat", "/root/data") == "results\n"


def test_an_action_that_is_cancelled_is_finished_or_undone_by_the_next(
    units: Path, bridge: str, image: dict[str, Any]
) -> None:
    config, handler_of = server(units, bridge, image), plugins.find("handler", "composed").make
    whole = ComposedHandler(**config)
    whole.do(action("setup", 1), threading.Event())
    up = seen(units, bridge)
    whole.do(action("teardown", 2), threading.Event())
    for stops, number in zip(range(1, 20, 3), range(3, 100, 3), strict=False):
        stop, counted = threading.Event(), [0]

        def at(point: str, stop: threading.Event = stop, counted: list[int] = counted, stops: int = stops) -> None:
            counted[0] += 1
            if counted[0] == stops:
                stop.set()

        with pytest.raises(Cancelled):
            handler_of({**config, "at": at}).do(action("setup", number), stop)
        if stops % 2:
            whole.do(action("setup", number + 1), threading.Event())
            assert seen(units, bridge) == up
        whole.do(action("teardown", number + 2), threading.Event())
        assert seen(units, bridge) == {}


def test_want_of_space_is_no_failure(units: Path, bridge: str, image: dict[str, Any], tmp_path: Path) -> None:
    """The disk of the units is full at this moment: nothing is begun, and nothing is left."""
    units.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "none", units], check=True)
    try:
        config = server(units, bridge, image)
        filler = units / ".filler"
        do(config, action("setup", 1))
        do(config, action("teardown", 2))
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(b"x" * (12 << 20))
        with pytest.raises(NotBegun, match=r"(?i)no space left"):
            do(config, action("setup", 3))
        filler.unlink()
        assert do(config, action("setup", 3))[0].well
        do(config, action("teardown", 4))
    finally:
        subprocess.run(["umount", "-R", units], check=False)
