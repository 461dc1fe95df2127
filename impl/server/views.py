"""Views of an actor and its leases as plain data: the facts of now. What has happened, the actor's events tell."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.table import BELOW, SLICE, WISH, MachineInstance
from leasehold.impl.core.work import SendWork
from leasehold.impl.lease.quota import ClientAccounts
from leasehold.impl.server.machine_views import MachineViews
from leasehold.impl.store.store import RecordKey, low_words
from leasehold.spec import System


class Views:
    """The views of an actor.

    Args:
        actor: which.
        system: its specification.
        tick_seconds: of its clock.
        folder: of its specification; empty: that is a shipped one.
    """

    def __init__(self, actor: Actor, system: System, tick_seconds: float, folder: str = "") -> None:
        self.actor, self.tick_seconds, self.folder = actor, tick_seconds, folder
        self.machines = MachineViews(system, actor.program)

    def query(self) -> dict[str, Any]:
        """The answers of its policies to who would like to know what can be had, by role."""
        return self.actor.queries.said() | {"tick_seconds": self.tick_seconds}

    def about(self) -> dict[str, Any]:
        """The actor itself."""
        actor = self.actor
        return {
            "name": actor.identity.name,
            "roles": sorted(role for role in actor.roles if not actor.program.roles[role].subsidiary),
            "system": actor.program.system,
            "folder": self.folder,
            "spec_digest": actor.program.digest,
            "agreement": actor.codec.agreement,
            "constants": dict(actor.program.constants),
            "address": actor.codec.address,
            "epoch": actor.epoch,
            "running": actor.running,
            "idle": actor.idle,
            "low": low_words(actor.store),
            "now": actor.clock.now(),
            "tick_seconds": self.tick_seconds,
            "machines": len(actor.table.instances),
            "units": len(self.unit_names),
            "messages_waiting": len(actor.outbox),
            "messages_on_their_way": dict(actor.outbox.on_their_way()),
            "handlers_at_work": actor.calls.under_way(),
            "counts": dict(actor.counts),
            "takes_demands": any(hasattr(policy, "demand") for policy in actor.environment.policies.values()),
        }

    def states(self) -> dict[str, dict[str, int]]:
        """Returns the number of machines of each role in each state."""
        counts: dict[str, dict[str, int]] = {}
        for instance in self.actor.table.instances.values():
            of_role = counts.setdefault(instance.core.role, {})
            of_role[instance.state] = of_role.get(instance.state, 0) + 1
        return counts

    def leases(self) -> list[dict[str, Any]]:
        """Every machine of every lease, in short, without subsidiary ones; and what is wanted and has not begun."""
        items = sorted(self.actor.table.instances.items())
        begun = [self._short(instance) for _, instance in items if not instance.core.subsidiary]
        unbegun = map(self._unbegun, sorted(self.actor.upcalls.unbegun()))
        return [{**row, "client": self.client(row["lease"])} for row in (*begun, *unbegun)]

    def slices(self) -> list[dict[str, Any]]:
        """The slices that a policy keeps, and the leases that are wanted in each."""
        rows = {
            name.removeprefix(SLICE): {"slice": name.removeprefix(SLICE), **(wish_shown(body) or {}), "leases": []}
            for name, body in sorted(self.actor.table.metadata.items())
            if name.startswith(SLICE)
        }
        for name, body in sorted(self.actor.table.metadata.items()) if rows else ():
            if name.startswith(WISH) and (row := rows.get((wish_shown(body) or {}).get("slice", ""))) is not None:
                row["leases"].append(name.removeprefix(WISH))
        return [*rows.values()]

    def client(self, lease: str) -> str:
        """The client that has demanded a lease; empty where it was none."""
        accounts = self.actor.environment.accounts
        return "" if accounts is None else accounts.client(lease)

    def clients(self, may: Mapping[str, Collection[str]]) -> list[dict[str, Any]]:
        """The clients that are named, and those that have leases: their quotas, and what is used of these now.

        Args:
            may: what each of those that are named may do.
        """
        accounts, now = self.actor.environment.accounts, self.actor.clock.now()
        assert isinstance(accounts, ClientAccounts)
        rows = []
        for name in sorted({*may, *accounts.clients()}):
            quota, leases, unit_ticks = accounts.standing(name, now)
            rows.append(
                {
                    "client": name,
                    "may": sorted(may.get(name, ())),
                    "leases": leases,
                    "leases_most": quota.leases,
                    "unit_ticks": unit_ticks,
                    "unit_ticks_most": quota.unit_ticks,
                    "per": quota.per,
                }
            )
        return rows

    def _unbegun(self, lease: str) -> dict[str, Any]:
        """A lease that is wanted and has no machine yet, in short."""
        row = {"lease": lease, "actor": self.actor.identity.name, "machine": "", "state": "not begun", "since": None}
        wish = wish_shown(self.actor.upcalls.wish(lease))
        return {**row, "over": False, "asks": [], "data": {}, "times": [], "wish": wish}

    def units(self) -> list[dict[str, Any]]:
        """Every subsidiary machine; of the actor also those to which nothing has happened yet."""
        of_runs = (key for key, instance in self.actor.table.instances.items() if instance.core.of_run)
        return [self._of_unit(key) for key in sorted((*self.unit_names.values(), *of_runs), key=self._order)]

    def _order(self, key: RecordKey) -> tuple[str, int, str]:
        core, number = self.actor.program.machines[key.machine]
        return core.role, number, key.lease

    def _of_unit(self, key: RecordKey) -> dict[str, Any]:
        instance, (core, number) = self.actor.table.instances.get(key), self.actor.program.machines[key.machine]
        instance = instance or MachineInstance(key, core, core.first(number), [])
        return {
            "unit": self._unit_name(instance),
            **self._short(instance),
            "lease": instance.serves,
            "shown": self.machines.shown(instance.core, instance.record),
            "facts": instance.metadata.get("facts", {}),
            "left": self._left(instance),
        }

    @cached_property
    def unit_names(self) -> dict[str, RecordKey]:
        """The machines of all units by persistent name, or where they have none by that of the specification.

        They are the same as long as the actor runs.
        """
        program, units = self.actor.program, self.actor.environment.units
        by_name: dict[str, RecordKey] = {}
        for role in sorted(role for role in self.actor.roles if program.roles[role].of_actor):
            core = program.roles[role]
            for number in range(core.count):
                name = core.machine(number) if units is None else units.name(number)
                if name is not None:
                    machine = core.machine(number)
                    by_name[machine if name in by_name else name] = RecordKey(BELOW, machine)
        return by_name

    def lease(self, lease: str) -> list[dict[str, Any]]:
        """All of a lease: its machines, each with its units and what is under way."""
        items = sorted((key, instance) for key, instance in self.actor.table.instances.items() if key.lease == lease)
        return [self._long(instance) for _, instance in items if not instance.core.subsidiary]

    def present(self, lease: str) -> dict[str, Any]:
        """A lease as it is now, and the place in the chain of events at which that is so."""
        chronicle = self.actor.chronicle
        return {
            "now": self.actor.clock.now(),
            "last": chronicle.head.position,
            "events": [body.decode() for body in chronicle.present(lease)],
            "machines": self.lease(lease),
        }

    def unit(self, name: str) -> RecordKey | None:
        """The machine of a unit of the actor: by its persistent name, as `unit[3]`, or by its number."""
        known = self.unit_names
        machines = {key.machine: key for key in known.values()}
        numbered = [key for machine, key in machines.items() if machine.endswith(f"[{name}]")]
        return known.get(name) or machines.get(name) or (numbered[0] if len(numbered) == 1 else None)

    def _unit_name(self, instance: MachineInstance) -> str:
        return instance.key.machine if instance.core.of_run else self.actor.environment.unit_name(instance)

    def _short(self, instance: MachineInstance) -> dict[str, Any]:
        since = instance.metadata.get("since")
        return self.machines.short(self.actor.identity.name, instance.key, instance.core, instance.record, since)

    def _long(self, instance: MachineInstance) -> dict[str, Any]:
        return {
            **self._short(instance),
            "client": self.client(instance.key.lease),
            "shown": self.machines.shown(instance.core, instance.record),
            "peers": {
                self.actor.program.neighbour(instance.core, instance.number, at): actor
                for at, actor in instance.addressed
            },
            "wish": None if instance.core.subsidiary else wish_shown(self.actor.upcalls.wish(instance.key.lease)),
            "undecided": self._undecided(instance),
            "units": self._driven(instance),
            "messages": list(self._messages(instance)),
            "refused": self.actor.outbox.refusals.get(instance.key),
            "handlers": sorted(self.actor.calls.of(instance.key)),
        }

    def _driven(self, instance: MachineInstance) -> list[dict[str, Any]]:
        return [
            {
                "unit": self._unit_name(unit),
                "machine": unit.key.machine,
                "state": unit.state,
                "since": unit.metadata.get("since"),
                "facts": unit.metadata.get("facts", {}),
                "handlers": sorted(self.actor.calls.of(unit.key)),
                "left": self._left(unit),
            }
            for unit in self.actor.table.driven_by(instance.key.lease, instance.core.role)
        ]

    def _undecided(self, instance: MachineInstance) -> dict[str, Any] | None:
        """Returns what its policy waits for before it decides, and until when; None where it does not say."""
        answer = self.actor.upcalls.undecided(instance.key, self.actor.clock.now())
        return None if answer is None else answer._asdict()

    def _left(self, instance: MachineInstance) -> dict[str, Any] | None:
        """Returns what still lives of a unit that should be down, and since when that is known; None: nothing does."""
        remain = self.actor.remains.found.get(instance.key)
        return None if remain is None else remain._asdict()

    def _messages(self, instance: MachineInstance) -> Iterator[dict[str, Any]]:
        loop_now = time.monotonic()
        for pending in self.actor.outbox.of(instance.key):
            again = None if pending.again is None else max(0.0, pending.again.when() - loop_now)
            yield {
                "message": pending.message,
                "number": pending.number,
                "to": instance.peers[pending.neighbour],
                "times": pending.times,
                "taken": pending.tries == 0 and pending.times > 0 and pending.task is None,
                "reason": pending.reason,
                "again_seconds": again,
            }
        work = instance.core.work[instance.state](instance.record)
        owed = self.actor.table.unaddressed.get(instance.key, ())
        for piece in work:
            if isinstance(piece, SendWork) and piece.neighbour in owed:
                machine = self.actor.program.neighbour(instance.core, instance.number, piece.neighbour)
                yield {
                    "message": piece.message,
                    "number": instance.record[instance.core.sent_at][piece.neighbour],
                    "to": "",
                    "times": 0,
                    "taken": False,
                    "reason": f"nobody is known to play {machine}",
                    "again_seconds": None,
                }


def wish_shown(wish: bytes) -> Any:
    """A client's demand for a lease, where its policy keeps it as JSON; else None."""
    try:
        return msgspec.json.decode(wish) if wish else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
