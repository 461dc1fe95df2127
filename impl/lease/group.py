"""Groups: leases of one holder that it wants all or none of, over types, brokers and sites (co-allocation).

Theory of operation. The members of a group are leases like others, each with its own machine, broker and site, and no
other actor has to know of the group. The holder's policy redeems no ticket before it has the tickets of all members,
and shows no longer ticket to a site before it has the longer tickets of all (spec/systems/group). Where one member is
over, the others are closed. So brokers may hold units for a group that never begins, until its tickets are given back
or their term ends; sites never do.

All tickets of a term have one end, so that no member's site runs its units on where the holder dies in the middle: the
first member's demand sets the end of the first term, the first renewal that of the next.

Nothing of a group is kept but in its members' demands (`LeaseDemand.group`, `ended`). That a group was complete shows
in its members' records: a ticket goes with its lease alone, and then the group is over.
"""

from __future__ import annotations

from collections.abc import Mapping

from leasehold.impl.lease.demand import DemandError, LeaseDemand, LeaseGroup
from leasehold.impl.policy.policy import Lease

_WITHOUT_TICKET = ("nascent", "ticketing")


class Groups:
    """The groups of a holder.

    Args:
        wishes: the demands of its policy, by lease.
        leases: its leases that are not over, by name.

    Attributes:
        over: by id, why a group has ended of which a demand is still kept.
    """

    def __init__(self, wishes: Mapping[str, LeaseDemand], leases: Mapping[str, Lease]) -> None:
        self._wishes, self._leases = wishes, leases
        self._members: dict[str, dict[str, None]] = {}
        self.over: dict[str, str] = {}

    def note(self, lease: str, wish: LeaseDemand) -> None:
        """A lease is wanted."""
        if wish.group is not None:
            self._members.setdefault(wish.group.id, {})[lease] = None
            if wish.ended:
                self.over.setdefault(wish.group.id, wish.ended)

    def forget(self, lease: str, wish: LeaseDemand) -> None:
        """A lease is not wanted any more, or not known of."""
        if wish.group is None:
            return
        members = self._members[wish.group.id]
        del members[lease]
        if not members:
            del self._members[wish.group.id]
            self.over.pop(wish.group.id, None)

    def members(self, wish: LeaseDemand | None) -> list[str]:
        """The leases that are wanted with a lease, itself among them; none where it is in no group."""
        return list(self._members.get(wish.group.id, ())) if wish is not None and wish.group is not None else []

    def first(self, group: LeaseGroup) -> LeaseDemand | None:
        """The demand of a group that came first, if another lease may still come to the group.

        Raises:
            DemandError: none may.
        """
        names = list(self._members.get(group.id, ()))
        if group.id in self.over:
            raise DemandError(
                f"group {group.id[:60]!r} is over: {self.over[group.id]}; give another group another id, or wait until "
                "its first term is over"
            )
        if not names:
            return None
        before = self._wishes[names[0]]
        assert before.group is not None
        if before.group.count != group.count:
            count = before.group.count
            raise DemandError(
                f"group {group.id[:60]!r} is of {count} leases, as {names[0]} says, and not of {group.count}"
            )
        if len(names) >= group.count:
            raise DemandError(
                f"group {group.id[:60]!r} is of {group.count} leases, and has them: {', '.join(names)}; give another "
                "group another id"
            )
        return before

    def missing(self, wish: LeaseDemand) -> str:
        """Words on the members of a lease's group whose first tickets are not here; empty where none is missing."""
        if wish.group is None:
            return ""
        names = self.members(wish)
        asked = [name for name in names if (lease := self._leases.get(name)) is None or lease.state in _WITHOUT_TICKET]
        unknown = wish.group.count - len(names)
        words = [f"the ticket of {', '.join(asked)}"] if asked else []
        if unknown:
            words.append(f"{unknown} more lease{'s' * (unknown > 1)} of {wish.group.count}")
        return " and ".join(words)

    def begins(self, wish: LeaseDemand) -> int:
        """The tick at which the last member of a lease's group may be redeemed."""
        names = self.members(wish)
        tickets: list[int] = [self._leases[name].data["ticket_start"] for name in names if name in self._leases]
        return max([*tickets, *(self._wishes[name].start for name in names)])

    def behind(self, wish: LeaseDemand, end: int) -> list[str]:
        """The members of a lease's group that have no ticket to the same end."""
        names = self.members(wish)
        return [name for name in names if name not in self._leases or self._leases[name].data["ticket_end"] != end]

    def longest(self, wish: LeaseDemand) -> int:
        """The latest end that a member of a lease's group has a ticket to, or has asked for; 0: it is in no group."""
        leases = (self._leases[name] for name in self.members(wish) if name in self._leases)
        return max((max(lease.data["ticket_end"], lease.data["requested_end"]) for lease in leases), default=0)


def end_of_member(lease: Lease) -> str:
    """Words on how a lease came to its end, as those of its group are told."""
    data = lease.data
    if lease.state != "failed":
        return f"{lease.name} has ended"
    if not data["ticket_units"]:
        why = f": {data['ticket_reason']}" if data["ticket_reason"] else ""
        return f"{lease.name} was denied{why}"
    why = f": {data['lease_reason']}" if data["lease_reason"] else ""
    return f"{lease.name} has failed at its site{why}"
