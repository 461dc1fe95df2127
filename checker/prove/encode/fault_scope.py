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
        amnesia: actors lose their stores; only of systems that are checked with it, as few protocols survive that.
    """

    crash: bool = True
    network: bool = True
    amnesia: bool = False

    @classmethod
    def of(cls, system: System) -> FaultScope:
        """All faults where every channel is a mailbox; else only those that channels declare.

        Stores are lost where `check` takes them for lost, too.
        """
        numbered = all(channel.kind == "mailbox" for channel in system.channels.values())
        forgetful = any(part.strip().startswith("amnesia=") for part in system.faults.usual.split(","))
        return cls(crash=numbered, network=numbered, amnesia=numbered and forgetful)

    def usual(self, system: System) -> str:
        """The faults under which a run is looked for that contradicts a proof: those of `check` of which it speaks."""
        usual = Budget.parse(system.faults.usual)
        known = Budget(**{kind: count for kind, count in usual.given.items() if kind in self.kinds})
        return str(known) if known.given else "crash=1"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of faults of which a proof with all of them speaks."""
        return (*OF_PROOFS, "amnesia") if self.amnesia else OF_PROOFS

    def speaks_of(self, budget: Budget) -> bool:
        """Returns whether a proof with these faults is about runs under a budget of faults."""
        return self.crash and self.network and all(kind in self.kinds for kind in budget.given)

    @property
    def any(self) -> bool:
        """Returns whether there are any."""
        return self.crash or self.network

    @property
    def words(self) -> str:
        some = [*(["crashes"] if self.crash else []), *(["losses, duplicates and overtaking"] if self.network else [])]
        words = f"any number of {' and '.join(some)}" if some else "no faults but those that channels declare"
        return f"{words}, and of lost stores" if self.amnesia else words
