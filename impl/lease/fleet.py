"""The actors of the lease as processes: for the demo, tests and benchmarks."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from leasehold.impl.handlers import processes
from leasehold.impl.handlers.place import UnitDirectory
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
from leasehold.impl.lease.inventory import units_at
from leasehold.impl.processes.fleet import FleetError, SystemFleet

TENANT, BROKER, SITE = "tenant", "broker", "site"
ROLES: Mapping[str, str] = {TENANT: "service_manager", BROKER: "broker", SITE: "authority"}
HANDLER_SECONDS = 30.0  # after which the machines give a handler up
HANDLING = {"longest_seconds": 20.0}


class UnitFleet(SystemFleet):
    """A fleet whose sites have units that are processes, and whose holders have guests that are.

    Attributes:
        unit_folders: the folders of units, within that of the fleet.
    """

    unit_folders: Sequence[str] = ("units",)

    def unit_places(self) -> list[UnitDirectory]:
        """The folders of all units that there are or were, by name."""
        return [place for folder in self.unit_folders for place in self._places(folder)]

    def guest_places(self) -> list[UnitDirectory]:
        """The folders of all guests on them."""
        return self._places("guests")

    def _places(self, name: str) -> list[UnitDirectory]:
        folder = self.folder / name
        return [UnitDirectory(path) for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []

    def unit_processes(self) -> list[processes.ProcessSnapshot]:
        """The processes of all units."""
        return [member for place in self.unit_places() for member in place.members(thorough=True)]

    def end_units(self) -> None:
        """Ends the processes of all units: for who throws the folder away."""
        for member in self.unit_processes():
            processes.send(member, signal.SIGKILL)

    def end_guests(self) -> None:
        """Ends the processes of all guests."""
        for place in self.guest_places():
            for member in place.members(thorough=True):
                processes.send(member, signal.SIGKILL)

    def remove(self) -> None:
        """Ends all actors and units at once, and removes the folder."""
        for name in self.processes:
            self.kill(name)
        for _ in range(3):  # a start of a unit that is under way may become a process meanwhile
            self.end_units()
            time.sleep(0.02)
        super().remove()


class Fleet(UnitFleet):
    """A service manager, a broker and a site as processes.

    Args:
        folder: where they keep everything.
        units: of the site.
        handler: of the site's units; left out: each unit is a process group.
        guest: the handler of what the holder runs on them; left out: it runs nothing.
        rest: as `SystemFleet` takes it.
    """

    def __init__(
        self,
        folder: Path,
        units: int = 6,
        tick_seconds: float = 0.5,
        store: Callable[[str], str] | None = None,
        handler: Mapping[str, Any] | str | None = None,
        more: Mapping[str, Any] | None = None,
        guest: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        limit = round(HANDLER_SECONDS / tick_seconds)
        settings = {"max_units": units, "handler_limit": limit, "guest_limit": limit, **(settings or {})}
        players = {role: name for name, role in ROLES.items()}
        super().__init__("lease", folder, settings, tick_seconds, store, more, players)
        self.units = units
        self._handlers = {SITE: handler or {"name": "process", "directory": "units"}, TENANT: guest}

    def _plugs(self, name: str) -> dict[str, Any]:
        """The inventory and the handler; each role of the lease has a policy that it takes by itself."""
        units = {"inventory": {"units": [{"name": "unit", "count": self.units}]}} if name != TENANT else {}
        handler = {"handler": self._handlers[name]} if name != BROKER else {}
        return units | handler


class DelegationFleet(SystemFleet):
    """The actors that hand the units of sites on to brokers, as processes: one for each site and broker.

    Each stock of a site is a run, in which the site plays the first holder and the brokers the others.

    Args:
        folder: where they keep everything, with the keys of those that sell and honour tickets.
        sites: by name, the units of each by type.
        brokers: their names; the units come to each from its site, or from the broker before it.
        tick_seconds: of the clock.
        published: the folder in which an actor publishes what it has, by its name.
        sells: the brokers that sell tickets.
    """

    def __init__(
        self,
        folder: Path,
        sites: Mapping[str, Mapping[str, int]],
        brokers: Sequence[str],
        tick_seconds: float,
        published: Callable[[str], Path],
        sells: Collection[str],
    ) -> None:
        self.sells = sells
        self._holders = {f"holder[{n}]": name for n, name in enumerate(brokers, 1)}
        players = {"holder[0]": next(iter(sites)), **self._holders}
        settings = {"holders": len(players)}
        super().__init__("delegation", folder, settings, tick_seconds, None, {"handling": HANDLING}, players)
        self.sites, self._published = sites, published
        self.roles = dict.fromkeys((*sites, *brokers), ("holder",))

    def _config(self, name: str, listen: Any) -> dict[str, Any]:
        peers = {"holder[0]": name, **self._holders} if name in self.sites else {}
        return {**super()._config(name, listen), "peers": peers}

    def _plugs(self, name: str) -> dict[str, Any]:
        folder = str(self._published(name).resolve())
        plugs = {"handler": {"name": "delegations", "folder": folder, "sold": name in self.sells, "wait_seconds": 5.0}}
        if name in self.sites:
            return {**plugs, "inventory": {"units": units_at({name: self.sites[name]}, own=True)}}
        return plugs

    def stock(self, site: str, type: str, units: int, until: int) -> str:
        """Opens a stock of a site; returns its run."""
        client = self.client(site)
        fields = {"units": units, "start": client.get("about")["now"], "end": until, "type": type}
        run: str = client.post("begin", machine="holder[0]", event="open", fields=fields)["lease"]
        return run

    def hand_on(self, run: str, giver: str, takers: Mapping[str, int], until: int) -> None:
        """Hands units of a run on to brokers; what it keeps for tickets of its own is called back first.

        Raises:
            FleetError: it does not come to that within the limit of a handler.
        """
        machines = {name: machine for machine, name in self._holders.items()}
        client, own = self.client(giver), machines.get(giver, "holder[0]")

        def tell(event: str, **fields: Any) -> None:
            client.post("leases", run, "tell", event=event, machine=own, fields=fields)

        number = [*self._holders].index(own) + 1 if giver in machines else 0
        deadline = time.monotonic() + HANDLER_SECONDS
        called_back = False
        while True:
            rows = [row for row in client.get("leases") if row["lease"] == run and row["state"] == "holding"]
            if rows and not rows[0]["data"]["given"][number]:
                break
            if rows and not called_back:
                tell("recall", who=own)
                called_back = True
            if time.monotonic() > deadline:
                raise FleetError(f"{giver} has no units of {run} to hand on; {self.last_words(giver)}")
            time.sleep(0.1)
        for taker, units in takers.items():
            tell("hand_on", who=machines[taker], units=units, start=client.get("about")["now"], end=until)


class FederationFleet(UnitFleet):
    """Several holders, brokers and sites as processes, which all trust each other.

    Args:
        folder: where they keep everything.
        sites: by name, the units of each by type; each unit is a process group, named SITE-TYPE-NUMBER.
        brokers: by name, the units that each promises, by site and type.
        holders: their names.
        above: a broker that the sites hand their units on to, and that hands them on to the others; left out: these
            have them in their inventories.
        rest: as `SystemFleet` takes it.

    Attributes:
        delegating: the actors that hand units on, where a broker is above the others.
    """

    def __init__(
        self,
        folder: Path,
        sites: Mapping[str, Mapping[str, int]],
        brokers: Mapping[str, Mapping[str, Mapping[str, int]]],
        holders: Sequence[str],
        above: str = "",
        tick_seconds: float = 0.5,
        more: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        limit = round(HANDLER_SECONDS / tick_seconds)
        most = max(sum(types.values()) for types in sites.values())
        settings = {"max_units": most, "handler_limit": limit, "guest_limit": limit, **(settings or {})}
        first = {"service_manager": holders[0], "broker": next(iter(brokers)), "authority": next(iter(sites))}
        super().__init__("lease", folder, settings, tick_seconds, None, more, first)
        self.sites, self.brokers, self.holders = sites, brokers, holders
        kinds = (("service_manager", holders), ("broker", brokers), ("authority", sites))
        self.roles = {name: (role,) for role, names in kinds for name in names}
        self.unit_folders = [f"units-{site}" for site in sites]
        self.above = above
        self.delegating: DelegationFleet | None = None
        if above:
            names = [above, *brokers]
            published = self._published
            self.delegating = DelegationFleet(folder / "delegating", sites, names, tick_seconds, published, brokers)

    def _published(self, name: str) -> Path:
        return self.folder / f"handed-{name}"

    def prepare(self) -> None:
        """Writes keys, trust set and configurations; who hands units on has the same keys."""
        super().prepare()
        if self.delegating is None:
            return
        folder = self.delegating.folder
        folder.mkdir(mode=0o700, exist_ok=True)
        for name in self.delegating.roles:
            if name in self.roles and not (folder / f"{name}.key").exists():
                self._key(name).save(folder / f"{name}.key")
        self.delegating.prepare()
        key = PrivateKey.load(folder / f"{self.above}.key").public

        def with_it(trust: Trust) -> Trust:
            return trust if self.above in trust.actors else add(trust, self.above, "broker", key)

        trust_file.change(self.folder / "trust.yaml", with_it)

    def hand_on(self, ticks: int) -> None:
        """Hands the units of all sites on: to the broker above, and from it to each of the others its own.

        Args:
            ticks: for which they are handed on.
        """
        assert self.delegating is not None
        until = self.client(self.holders[0]).get("about")["now"] + ticks
        for site, types in self.sites.items():
            for type, units in types.items():
                run = self.delegating.stock(site, type, units, until)
                self.delegating.hand_on(run, site, {self.above: units}, until)
                shares = {name: of.get(site, {}).get(type, 0) for name, of in self.brokers.items()}
                self.delegating.hand_on(run, self.above, {n: share for n, share in shares.items() if share}, until)

    def remove(self) -> None:
        """Ends all actors and units at once, and removes the folder."""
        if self.delegating is not None:
            self.delegating.remove()
        super().remove()

    def _plugs(self, name: str) -> dict[str, Any]:
        """The inventory and the handler; each role of the lease has a policy that it takes by itself."""
        if name in self.sites:
            units = units_at({name: self.sites[name]}, own=True)
            plugs = {"inventory": {"units": units}, "handler": {"name": "process", "directory": f"units-{name}"}}
            return plugs | ({"delegations": f"handed-{name}"} if self.above else {})
        if name in self.brokers and self.above:
            return {"delegations": f"handed-{name}"}
        if name in self.brokers:
            return {"inventory": {"units": units_at(self.brokers[name])}}
        return {"handler": None}
