"""Seeded bugs in the running system: what the paper (section 5.1) and today's leasing systems got wrong.

Each is planted into the real implementation, or into the simulated world, of this process, and taken out again. The
recovery checker must catch every one of them (tests/campaigns/seeded.py), or a test, where no campaign has the like.
Mistakes in the specification are another thing: tests/mutants.
"""

from tests.seeded_bugs import losses_and_guests, messages, policies, records, recovery, shapes, units  # noqa: F401 - each registers its own
from tests.seeded_bugs.bug import CLASSES, Bug, UnknownBug, bugs, named

__all__ = ["CLASSES", "Bug", "UnknownBug", "bugs", "named"]
