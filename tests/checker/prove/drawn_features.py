"""What a system that was drawn has, of what the prover treats in a way of its own."""

from __future__ import annotations

from collections.abc import Iterator

from leasehold.spec import System
from leasehold.spec.language import expression as x
from leasehold.spec.language.parts import expressions


def features(system: System) -> Iterator[str]:
    """Yields what a system has, of what the prover treats in a way of its own."""
    yield from sorted({channel.kind for channel in system.channels.values()})
    yield from sorted(
        {
            f"channels that {fault}"
            for channel in system.channels.values()
            for fault in ("lose", "duplicate", "reorder")
            if getattr(channel, fault)
        }
    )
    data = [datum for role in system.holders.values() for datum in role.data.values()]
    all_of = list(expressions(system.roles))
    yield from sorted({str(datum.type).split("[")[0] for datum in data})
    roles = {role for names in system.actors.values() for role in names if system.roles[role].indexed}
    found = {
        "any number of machines": any(
            type_.counted_by and type_.counted_by not in system.bounding for type_ in system.counted()
        ),
        "messages lost in a crash": any(c.on_crash == "lost" for c in system.channels.values()),
        "nodes": system.faults.nodes,
        "actors with several machines": roles,
        "actors": system.actors,
        "subsidiary machines": any(role.parent for role in system.roles.values()),
        "clock": system.clock,
        "late timers": system.clock and system.clock.late,
        "bounding constants": system.bounding,
        "initial: any": any(datum.any_initial for datum in data),
        "shared variables": system.shared,
        "first states of machines": any(role.begin for role in system.roles.values()),
        "tasks that read their step": any(datum.captured for datum in data),
        "tasks to which their step is passed": any(t.passes for r in system.roles.values() for t in r.transitions()),
        "computed instances": any(x.mentions(e, lambda node: isinstance(node, x.InstanceAt)) for e in all_of),
        "least and greatest": any(x.mentions(e, _is_extreme) for e in all_of),
        "maps as a whole": any(x.mentions(e, lambda node: getattr(node, "kind", "") == "map") for e in all_of),
        "definitions of guards": any(role.definitions for role in system.roles.values()),
        "dynamic roles": any(role.instance.dynamic for role in system.roles.values()),
    }
    yield from (name for name, held in found.items() if held)


def _is_extreme(node: x.Expression) -> bool:
    return isinstance(node, x.Quantifier) and node.kind in ("min", "max")
