"""The driver `network`: a network namespace with an address, on a bridge of this machine.

Theory of operation. A unit has a namespace of its own, and a pair of interfaces: `eth0` in the namespace, and one with
the part's short name at the bridge. Both ends are made by one request to the kernel, the inner one in its namespace, so
they are there together or not at all. Links that this driver makes are of the link group GROUP from their first moment
on; so a bridge that it has made, with the gateway's address, is told from one of the site's own, and is removed with
the last unit at it. The bridge is looked at and changed under a lock, as the units of a site, and other sites, share
it.

A rate is kept by a token bucket (tbf) at each end. Where the kernel has none, that is said.
"""

from __future__ import annotations

import errno
import importlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from leasehold.impl import files
from leasehold.impl.drivers.driver import (
    Facts,
    FoundPart,
    SettingCheck,
    UnitPart,
    address_of,
    need_root,
    rate_of,
    subnet_of,
)
from leasehold.impl.drivers.mounts import mount_at
from leasehold.impl.handlers.handler import HandlerError

INNER = "eth0"
GROUP = 7845  # ip link show group 7845
NAMESPACES = Path("/run/netns")
LOCKS = Path("/run/leasehold")
LATENCY = "50ms"  # for which the token bucket keeps packets
LEAST_BURST = 16 * 1024  # bytes
ROOT = 0xFFFFFFFF  # TC_H_ROOT of the kernel: the discipline of an interface itself


class NetworkSettings(Struct, forbid_unknown_fields=True, frozen=True):
    """The network of a unit.

    Attributes:
        bridge: the interface that connects the units; made where it is missing.
        subnet: the network at the bridge, as 10.77.0.0/24.
        address: the unit's; left out: that of its number in the subnet, after the gateway's.
        gateway: the address of a bridge that is made here; left out: the first of the subnet.
        bandwidth: the rate in each direction, as 10Mbit; 0: no limit.
    """

    bridge: str
    subnet: str
    address: str = ""
    gateway: str = ""
    bandwidth: int | str = 0


class NetworkDriver:
    """The driver, by netlink; `ip` makes and removes namespaces."""

    settings = NetworkSettings
    changes = frozenset({"bandwidth"})
    facts = ("namespace", "address", "netmask", "gateway", "interface")
    programs = ("ip",)
    checks: Mapping[str, SettingCheck] = {
        "bridge": lambda value, where: _check_bridge(value, where),
        "subnet": subnet_of,
        "address": lambda value, where: value and address_of(value, where),
        "gateway": lambda value, where: value and address_of(value, where),
        "bandwidth": rate_of,
    }

    def __init__(self) -> None:
        need_root("network")
        try:
            self._library = importlib.import_module("pyroute2")
        except ImportError:
            raise HandlerError(
                "the driver network needs pyroute2; `pip install leasehold[drivers]` brings it"
            ) from None

    def create(self, part: UnitPart, settings: NetworkSettings) -> Facts:
        facts = _facts(part, settings)
        subnet, rate = subnet_of(settings.subnet, "subnet"), rate_of(settings.bandwidth, "bandwidth")
        _check_bridge(settings.bridge, "bridge")
        self._make_namespace(part)
        part.point("namespace")
        with _bridge_lock(part, settings.bridge), self._library.IPRoute() as ip:
            bridge = self._make_bridge(ip, settings.bridge, facts["gateway"], subnet.prefixlen)
            part.point("bridge")
            outer = _link(ip, part.link)
            if outer is not None and not self._inside(part.name, lambda inner: _link(inner, INNER)):
                ip.link("del", index=outer["index"])  # it leads into a namespace that is gone
                outer = None
            if outer is None:
                peer = {"ifname": INNER, "net_ns_fd": str(NAMESPACES / part.name), "group": GROUP}
                ip.link("add", ifname=part.link, kind="veth", group=GROUP, peer=peer)
                part.point("link")
            index = ip.link_lookup(ifname=part.link)[0]
            ip.link("set", index=index, master=bridge, ifalias=f"leasehold {part.unit}"[:255], state="up")
        self._inside(part.name, lambda inner: _configure(inner, facts, subnet.prefixlen))
        part.point("address")
        self._set_rate(part, rate)
        part.point("rate")
        return facts

    def modify(self, part: UnitPart, settings: NetworkSettings) -> Facts:
        self._set_rate(part, rate_of(settings.bandwidth, "bandwidth"))
        part.point("rate")
        return _facts(part, settings)

    def probe(self, part: UnitPart, settings: NetworkSettings) -> FoundPart | None:
        there, facts = _is_namespace(part.name), _facts(part, settings)
        with self._library.IPRoute() as ip:
            outer = _link(ip, part.link)
        if outer is None and not (NAMESPACES / part.name).exists():
            return None
        has = self._inside(part.name, lambda inner: _addresses(inner)) if there else []
        up = outer is not None and outer.get("state") == "up" and facts["address"] in has
        missing = (
            "" if up else f", without {'its link' if outer is None else 'its address'}" if there else ", half made"
        )
        return FoundPart(up, f"network namespace {part.name}{missing}", facts)

    def destroy(self, part: UnitPart, settings: NetworkSettings) -> Facts:
        with _bridge_lock(part, settings.bridge), self._library.IPRoute() as ip:
            if (outer := _link(ip, part.link)) is not None:
                ip.link("del", index=outer["index"])
                part.point("unlinked")
            bridge = _link(ip, settings.bridge)
            if bridge is not None and bridge.get("group") == GROUP and not ip.get_links(master=bridge["index"]):
                ip.link("del", index=bridge["index"])
                part.point("unbridged")
        self._remove_namespace(part)
        part.point("removed")
        return {}

    def _make_namespace(self, part: UnitPart) -> None:
        if (NAMESPACES / part.name).exists():
            if _is_namespace(part.name):
                return
            self._remove_namespace(part)  # its file was made, and nothing was mounted there yet
        part.tools.run("ip", "netns", "add", part.name, may_wait=True)

    def _remove_namespace(self, part: UnitPart) -> None:
        file = NAMESPACES / part.name
        if _is_namespace(part.name):
            part.tools.run("ip", "netns", "del", part.name)
        file.unlink(missing_ok=True)

    def _make_bridge(self, ip: Any, name: str, gateway: str, length: int) -> int:
        bridge = _link(ip, name)
        if bridge is None:
            ip.link("add", ifname=name, kind="bridge", group=GROUP)
            bridge = _link(ip, name)
            assert bridge is not None
        if bridge.get("kind") != "bridge":
            raise HandlerError(f"bridge: {name} is an interface of this machine, and no bridge")
        if bridge.get("group") == GROUP:
            ip.addr("replace", index=bridge["index"], address=gateway, prefixlen=length)
            ip.link("set", index=bridge["index"], state="up")
        return int(bridge["index"])

    def _set_rate(self, part: UnitPart, rate: int) -> None:
        with self._library.IPRoute() as ip:
            self._limit(ip, part.link, rate)
        self._inside(part.name, lambda inner: self._limit(inner, INNER, rate))

    def _limit(self, ip: Any, name: str, rate: int) -> None:
        index = ip.link_lookup(ifname=name)[0]
        try:
            if rate:
                burst = max(LEAST_BURST, rate // 8 // 50)
                ip.tc("replace", "tbf", index, rate=f"{rate}bit", burst=burst, latency=LATENCY)
            elif any(q.get_attr("TCA_KIND") == "tbf" for q in ip.get_qdiscs(index=index)):
                ip.tc("del", index=index, parent=ROOT)
        except self._library.NetlinkError as error:
            if error.code == errno.ENOENT:
                raise HandlerError(
                    "bandwidth: this kernel has no token bucket (CONFIG_NET_SCH_TBF); leave it out"
                ) from None
            raise HandlerError(f"bandwidth of {name} cannot be {rate} bit/s: {error}") from None

    def _inside(self, name: str, do: Callable[[Any], Any]) -> Any:
        """Does something in a namespace: a thread's own, which ends with it."""
        result: list[Any] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                self._library.netns.setns(str(NAMESPACES / name), flags=0)
                with self._library.IPRoute() as ip:
                    result.append(do(ip))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, name=f"in {name}"[:15])
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return result[0]


def _facts(part: UnitPart, settings: NetworkSettings) -> dict[str, Any]:
    """The addresses of a unit, which follow from its number."""
    subnet = subnet_of(settings.subnet, "subnet")
    gateway = address_of(settings.gateway, "gateway") if settings.gateway else subnet.network_address + 1
    address = address_of(settings.address, "address") if settings.address else subnet.network_address + 2 + part.index
    for name, one in (("gateway", gateway), ("address", address)):
        if one not in subnet or one in (subnet.network_address, subnet.broadcast_address):
            raise HandlerError(f"{name}: {one} is no address of a host in {subnet}; write a larger subnet, or another")
    if address == gateway:
        raise HandlerError(f"address: {address} is the gateway's")
    return {
        "namespace": part.name,
        "address": str(address),
        "netmask": str(subnet.netmask),
        "gateway": str(gateway),
        "interface": INNER,
    }


def _check_bridge(name: str, where: str) -> None:
    if not 0 < len(name) < 16 or "/" in name or name.startswith("."):
        raise HandlerError(f"{where}: {name[:60]!r} is no name of an interface; 15 letters are the most")


def _is_namespace(name: str) -> bool:
    mount = mount_at(NAMESPACES / name)
    return mount is not None and mount.kind == "nsfs"


def _link(ip: Any, name: str) -> dict[str, Any] | None:
    found = ip.link_lookup(ifname=name)
    if not found:
        return None
    link = ip.get_links(index=found[0])[0]
    info = link.get_attr("IFLA_LINKINFO")
    return {
        "index": found[0],
        "state": link["state"],
        "group": link.get_attr("IFLA_GROUP"),
        "kind": info.get_attr("IFLA_INFO_KIND") if info is not None else "",
    }


def _addresses(ip: Any) -> list[str]:
    return [address.get_attr("IFA_ADDRESS") for address in ip.get_addr(family=2)]


def _configure(ip: Any, facts: Facts, length: int) -> None:
    for name in ("lo", INNER):
        ip.link("set", index=ip.link_lookup(ifname=name)[0], state="up")
    index = ip.link_lookup(ifname=INNER)[0]
    ip.addr("replace", index=index, address=facts["address"], prefixlen=length)
    ip.route("replace", dst="0.0.0.0/0", gateway=facts["gateway"], oif=index)


@contextmanager
def _bridge_lock(part: UnitPart, bridge: str) -> Iterator[None]:
    LOCKS.mkdir(mode=0o700, exist_ok=True)
    while (lock := files.lock(LOCKS / f"bridge-{bridge}.lock")) is None:
        part.tools.pause(0.01)
    try:
        yield
    finally:
        os.close(lock)
