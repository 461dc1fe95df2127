"""A network between the actors of a fleet whose links can be cut one by one: a proxy for each sender and receiver.

Each actor has a trust set of its own, in which the others are where its proxies are. Nothing else of it differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from urllib.parse import urlsplit

from leasehold.checker.recovery.processes.proxy import DEAF, OPEN, TcpProxy
from leasehold.faults.simulation.partition import LinkCuts
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.trust import readdress
from leasehold.impl.processes.fleet import SystemFleet


class Links:
    """The links of a fleet that is not started yet.

    Args:
        fleet: whose actors talk over HTTP.
        mode: of the proxy of a link that is cut: `deaf`, its sender waits in vain; `cut`, it learns so at once.
    """

    def __init__(self, fleet: SystemFleet, mode: str = DEAF) -> None:
        self.mode = mode
        fleet.trusts = {name: f"trust-{name}.yaml" for name in fleet.roles}
        fleet.prepare()
        self.proxies: dict[tuple[str, str], TcpProxy] = {}
        self._cuts = LinkCuts()
        trust = trust_file.change(fleet.folder / "trust.yaml", lambda known: known)
        for sender, file in fleet.trusts.items():
            own = trust
            for receiver in fleet.roles:
                port = urlsplit(trust.find(receiver).address).port
                if receiver != sender and port is not None:
                    proxy = self.proxies[sender, receiver] = TcpProxy(port)
                    own = readdress(own, receiver, f"http://127.0.0.1:{proxy.port}")
            trust_file.save(fleet.folder / file, own)

    def part(self, links: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """Cuts links, each of a sender and a receiver: what is sent does not come; returns what heals them."""
        cut = frozenset(links)
        self._turn(cut, self.mode)
        return self._cuts.part(cut, partial(self._turn, mode=OPEN))

    def _turn(self, links: Iterable[tuple[str, str]], mode: str) -> None:
        for link in links:
            self.proxies[link].turn(mode)

    def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.close()
