"""A network of an actor's own, whose packets can be dropped at random or one way: a namespace, a cable, and nft."""

from __future__ import annotations

import contextlib
import os
import re
import threading

from leasehold.checker.recovery.processes.actors import found
from leasehold.checker.recovery.processes.disks import say
from leasehold.checker.recovery.processes.servers import Unavailable

PROGRAMS = ("ip", "nft")
# What is lost, as nft has it; a fifth of the packets is what TCP gets over within a second or two.
RULES = {
    "random": "in numgen random mod 5 < 1 counter drop",
    "deaf": "in counter drop",
    "mute": "out counter drop",
}


class NetworkNamespace:
    """A network namespace, joined to this machine's own by a cable. Needs root.

    Attributes:
        outside: the address of this machine at the cable.
        inside: the address of who is in the namespace.
    """

    _made = 0
    _lock = threading.Lock()

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise Unavailable("only root may make network namespaces")
        with self._lock:
            number = NetworkNamespace._made = NetworkNamespace._made + 1
        self.name = f"lh{os.getpid()}-{number}"
        near, far = f"lh{os.getpid() % 100_000}x{number}", f"lh{os.getpid() % 100_000}y{number}"
        # Of the addresses that are for tests of networks (RFC 2544), four for each cable.
        network, first = f"198.18.{os.getpid() % 256}", number % 64 * 4
        self.outside, self.inside = f"{network}.{first + 1}", f"{network}.{first + 2}"
        self._lost = False
        say("ip", "netns", "add", self.name)
        try:
            say("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", self.name)
            say("ip", "address", "add", f"{self.outside}/30", "dev", near)
            say("ip", "link", "set", near, "up")
            for words in (f"address add {self.inside}/30 dev {far}", f"link set {far} up", "link set lo up"):
                say("ip", "-netns", self.name, *words.split())
            self._nft("add", "table", "inet", "leasehold")
            for chain, hook in (("in", "input"), ("out", "output")):
                kind = f"{{ type filter hook {hook} priority 0; }}"
                self._nft("add", "chain", "inet", "leasehold", chain, kind)
        except Unavailable:
            self.remove()
            raise

    @property
    def prefix(self) -> list[str]:
        """The words before a command that is run in it."""
        return [found("ip")["ip"], "netns", "exec", self.name]

    def lose(self, what: str) -> None:
        """Drops packets: a key of RULES."""
        chain, *rule = RULES[what].split()
        self._nft("add", "rule", "inet", "leasehold", chain, *rule)

    def mend(self) -> None:
        """Drops nothing any more."""
        self._lost = self.lost()
        self._nft("flush", "table", "inet", "leasehold")

    def lost(self) -> bool:
        """Whether a packet was dropped."""
        return self._lost or bool(re.search(r"counter packets [1-9]", self._nft("list", "table", "inet", "leasehold")))

    def remove(self) -> None:
        """Takes it away, and the cable with it."""
        with contextlib.suppress(Unavailable):
            say("ip", "netns", "delete", self.name)

    def _nft(self, *words: str) -> str:
        return say("ip", "netns", "exec", self.name, found("nft")["nft"], *words)
