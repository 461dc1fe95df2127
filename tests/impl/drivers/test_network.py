"""Networks: namespaces at a bridge, with addresses and rates, which share their bridge and leave nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.drivers.network import GROUP, NetworkDriver
from leasehold.impl.handlers.handler import HandlerError
from tests.impl.drivers.machine import needs, network, said, seen
from tests.impl.drivers.one import One

pytestmark = needs("ip", "busybox")

HEARS = """
import socket, time
server = socket.create_server(("{address}", 7007))
print("listening", flush=True)
connection, _ = server.accept()
began, heard = time.monotonic(), 0
while chunk := connection.recv(1 << 16):
    heard += len(chunk)
assert heard == 1_000_000
print(time.monotonic() - began)
"""
SPEAKS = """
import socket
with socket.create_connection(("{address}", 7007)) as connection:
    connection.sendall(bytes(1_000_000))
"""


@pytest.fixture
def settings(bridge: str) -> dict[str, Any]:
    return {"bridge": bridge, "subnet": f"{network(bridge)}.0/29"}


def link(name: str) -> dict[str, Any] | None:
    found = json.loads(said("ip", "-j", "-d", "addr", "show", "dev", name) or "[]")
    return found[0] if found else None


def test_units_share_a_bridge_that_goes_with_the_last_of_them(
    units: Path, settings: dict[str, Any], bridge: str
) -> None:
    at = network(bridge)
    first, second = One(units, "network", unit="u-0"), One(units, "network", unit="u-1")
    addresses = [one.create(**settings, address=f"{at}.{n}")["address"] for n, one in ((3, first), (4, second))]
    assert addresses == [f"{at}.3", f"{at}.4"]
    made = link(bridge)
    assert made is not None
    assert (made["group"], made["addr_info"][0]["local"]) == (str(GROUP), f"{at}.1")
    for one, there in ((first, f"{at}.4"), (second, f"{at}.3"), (first, f"{at}.1")):
        assert "1 packets received" in said("ip", "netns", "exec", one.name, "busybox", "ping", "-c1", "-W2", there)
    first.destroy(**settings)
    assert link(bridge) is not None
    assert first.probe(**settings) is None
    found = second.probe(**settings, address=f"{at}.4")
    assert found is not None
    assert found.up
    second.destroy(**settings)
    assert link(bridge) is None


def test_a_bridge_of_the_site_s_own_stays_as_it_is(units: Path, settings: dict[str, Any], bridge: str) -> None:
    said("ip", "link", "add", bridge, "type", "bridge")
    said("ip", "addr", "add", f"{network(bridge)}.6/29", "dev", bridge)
    one = One(units, "network")
    one.create(**settings)
    made = link(bridge)
    assert made is not None
    assert [a["local"] for a in made["addr_info"] if a["family"] == "inet"] == [f"{network(bridge)}.6"]
    one.destroy(**settings)
    assert link(bridge) is not None


@pytest.fixture
def link_of_another_kind(bridge: str) -> Iterator[None]:
    said("ip", "link", "add", bridge, "type", "veth", "peer", "name", f"{bridge}p")
    yield
    said("ip", "link", "del", bridge)


@pytest.mark.usefixtures("link_of_another_kind")
def test_what_is_no_bridge_is_left_alone(units: Path, settings: dict[str, Any], bridge: str) -> None:
    one = One(units, "network")
    with pytest.raises(HandlerError, match=f"{bridge} is an interface of this machine, and no bridge"):
        one.create(**settings)
    one.destroy(**settings)
    assert link(bridge) is not None
    assert one.probe(**settings) is None


def test_a_rate_limits_both_directions_and_is_changed_and_removed(
    units: Path, settings: dict[str, Any], bridge: str
) -> None:
    """A megabyte takes 0.8 s at 10 Mbit/s, less what the bucket lets through at once."""
    one = One(units, "network")

    def seconds(sends: bool) -> float:
        inside, host = ["ip", "netns", "exec", one.name, sys.executable, "-c"], [sys.executable, "-c"]
        hearing, speaking = (host, inside) if sends else (inside, host)
        address = f"{network(bridge)}.{1 if sends else 2}"
        with subprocess.Popen([*hearing, HEARS.format(address=address)], stdout=subprocess.PIPE, text=True) as hears:
            assert hears.stdout is not None
            assert hears.stdout.readline() == "listening\n"
            subprocess.run([*speaking, SPEAKS.format(address=address)], check=True)
            return float(hears.stdout.read())

    one.create(**settings, bandwidth="10Mbit")
    assert min(seconds(True), seconds(False)) > 0.6
    one.modify(**settings, bandwidth=0)
    assert min(seconds(True), seconds(True)) < 0.4
    one.destroy(**settings)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subnet": "10.202.0.0/33"}, "subnet: '10.202.0.0/33' is no network"),
        ({"subnet": "10.202.0.1/29"}, "has host bits set"),
        ({"address": "10.203.0.1"}, "address: 10.203.0.1 is no address of a host in 10.202.0.0/29"),
        ({"address": "10.202.0.7"}, "address: 10.202.0.7 is no address of a host"),
        ({"address": "10.202.0.1"}, "address: 10.202.0.1 is the gateway's"),
        ({"address": "there"}, "address: 'there' is no IPv4 address"),
        ({"gateway": "10.202.1.1"}, "gateway: 10.202.1.1 is no address"),
        ({"bandwidth": "fast"}, "bandwidth: 'fast' is no rate; write it as 10Mbit"),
        ({"bridge": "a-name-that-is-too-long"}, "is no name of an interface; 15 letters are the most"),
        ({"bridge": "../x"}, "is no name of an interface"),
    ],
)
def test_settings_that_cannot_be_met_leave_nothing(
    units: Path, settings: dict[str, Any], given: dict[str, str], words: str
) -> None:
    one = One(units, "network")
    with pytest.raises(HandlerError, match=words):
        one.create(**{**settings, "subnet": "10.202.0.0/29", **given})
    assert "namespaces" not in seen(units)


def test_what_was_interrupted_is_taken_up(units: Path, settings: dict[str, Any], bridge: str) -> None:
    """A namespace's file where nothing is mounted; a link into a namespace that is gone; a unit without its address."""
    one = One(units, "network")
    file = Path("/run/netns") / one.name
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    found = one.probe(**settings)
    assert found is not None
    assert (found.up, "half made" in found.words) == (False, True)
    one.create(**settings)
    said("ip", "netns", "exec", one.name, "ip", "addr", "flush", "dev", "eth0")
    found = one.probe(**settings)
    assert found is not None
    assert not found.up
    one.create(**settings)
    found = one.probe(**settings)
    assert found is not None
    assert found.up
    with subprocess.Popen(["ip", "netns", "exec", one.name, "sleep", "60"]) as holds:
        time.sleep(0.2)
        said("ip", "netns", "del", one.name)
        one.create(**settings)  # the link leads to the namespace of before, which a process keeps
        found = one.probe(**settings)
        assert found is not None
        assert found.up
        one.destroy(**settings)
        holds.kill()
    file.write_text("")
    one.destroy(**settings)
    assert not file.exists()
    assert link(bridge) is None


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    with pytest.raises(HandlerError, match=r"needs pyroute2; `pip install leasehold\[drivers\]` brings it"):
        NetworkDriver()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(HandlerError, match="the driver network needs root, and this is user 1000"):
        NetworkDriver()
