"""A role that keeps to no machine: its actor sends whatever it can sign, at any time (paper, sections 3.2 and 4.4).

Its own state says nothing and takes no step. What its neighbours see are its messages: each may come at any time, with
any content and a new number, so they need not wait in a channel. It cannot sign for another: a message that `carries`
another's shows values that it was once sent, and what it was sent it knows for ever.
"""

from __future__ import annotations

from dataclasses import replace

from leasehold.faults.kinds import adds
from leasehold.spec.language.lower import Relation, Variable


@adds("byzantine")
def byzantine(relation: Relation, role: str) -> Relation:
    """The first actor that plays the role sends whatever it can sign; that it stops would say nothing."""
    traitor = next((a for a in relation.actors if any(m.role == role for m in a.machines)), None)
    if traitor is None:
        return relation
    roles = {machine.role for machine in traitor.machines}
    carried = (m.carries for m in relation.system.messages.values() if m.sender in roles)
    known = Variable("known", tuple(dict.fromkeys(c for c in carried if c is not None)), frozenset())
    crashes = (replace(c, actors=tuple(a for a in c.actors if a is not traitor)) for c in relation.crashes)
    return replace(
        relation,
        variables=(*relation.variables, known),
        crashes=tuple(c for c in crashes if c.actors),
        changes=tuple(c for c in relation.changes if c.actor != traitor.name),
        byzantine=traitor,
    )
