"""A system as its logs are judged by: compiled, and grounded."""

from __future__ import annotations

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.ground import GroundOffer
from leasehold.faults.model import Budget
from leasehold.impl.compiler.contract_source import is_known
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.spec.language.bounds import as_running
from leasehold.spec.language.model import System


class KnownSystem:
    """A system, compiled and grounded once.

    Attributes:
        system, program, world: the system; as actors run it; as the explorer's reference takes its steps.
    """

    def __init__(self, system: System, program: Program | None = None) -> None:
        self.system = as_running(system)
        self.program = program or compile_system(system)
        self.world = reference_of(self.system, Budget(crash=1))

    def asks_unknown(self, offer: GroundOffer) -> bool:
        """Returns whether the environment's condition for an event reads what its actor cannot know."""
        role = offer.offer.role.name
        return not all(is_known(self.system, role, when) for when in offer.offer.outside)
