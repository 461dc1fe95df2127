"""The faults that a proof is about: those that the steps of the relation have in them."""

from __future__ import annotations

from dataclasses import dataclass

from leasehold.faults.model import Budget
from leasehold.spec.language.model import System

# Kinds of faults whose steps the relation has: an actor that halts never recovers, and what is parted delivers nothing.
OF_PROOFS = ("crash", "power_cut", "halt", "duplicate", "lose", "reorder", "partition")


@dataclass(frozen=True)
class FaultScope:
    """The faults that steps may have in them, each without a limit.

    Attributes:
        crash: actors stop at any point, and recover.
        network: messages of mailboxes are lost, come again, and overtake each other.
    """

    crash: bool = True
    network: bool = True

    @classmethod
    def of(cls, system: System) -> FaultScope:
        """All faults where every channel is a mailbox; else only those that channels declare."""
        numbered = all(channel.kind == "mailbox" for channel in system.channels.values())
        return cls(crash=numbered, network=numbered)

    @staticmethod
    def usual(system: System) -> str:
        """The faults under which a run is looked for that contradicts a proof: those of `check` of which it speaks."""
        usual = Budget.parse(system.faults.usual)
        known = Budget(**{kind: count for kind, count in usual.given.items() if kind in OF_PROOFS})
        return str(known) if known.given else "crash=1"

    def speaks_of(self, budget: Budget) -> bool:
        """Returns whether a proof with these faults is about runs under a budget of faults."""
        return self == FaultScope() and all(kind in OF_PROOFS for kind in budget.given)

    @property
    def any(self) -> bool:
        """Returns whether there are any."""
        return self.crash or self.network

    @property
    def words(self) -> str:
        some = [*(["crashes"] if self.crash else []), *(["losses, duplicates and overtaking"] if self.network else [])]
        return f"any number of {' and '.join(some)}" if some else "no faults but those that channels declare"
