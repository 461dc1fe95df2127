"""Constants that bound exploring, and the system as it runs.

Theory of operation. A constant is a *setting* of a run, which all actors have alike, or it *bounds exploring*
(`running:` in its declaration): last ticks, how many values are tried, whether units may be lost. No run has that
bound: units are lost at a running site whatever was explored. So what is asked of a run may not depend on the value
that is explored:

    running: VALUE   it is so in every run. Contracts and properties of a run read VALUE
    running: any     no run has the bound. The conjuncts of contracts that read it are left out at run time; a property
                     that a run is asked must not read it

Machines are explored as they run, so no machine reads a bound. `System.loaded_with` says what the loader has read
constants for; impl/compiler/bounds.py refuses the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from leasehold.spec.language import expression as x
from leasehold.spec.language import parts
from leasehold.spec.language.model import Datum, Outside, System


def as_running(system: System) -> System:
    """The system as it runs; itself where nothing bounds its exploring."""
    if not any(constant.bounds for constant in system.constants.values()):
        return system
    constants = {name: c if c.running is None else replace(c, value=c.running) for name, c in system.constants.items()}
    endless = endless_bounds(system)
    environment = {name: replace(o, when=held_to(o, endless)) for name, o in system.environment.items()}
    return replace(system, constants=constants, environment=environment)


def endless_bounds(system: System) -> frozenset[str]:
    """The constants that bound exploring, and no run."""
    return frozenset(name for name, c in system.constants.items() if c.bounds and c.running is None)


def held_to(outside: Outside, endless: frozenset[str]) -> x.Expression | None:
    """A contract without the conjuncts that only bound exploring; None where none is left."""
    if outside.when is None:
        return None
    kept = [part for part in x.conjuncts(outside.when) if endless.isdisjoint(constants_of(part))]
    if len(kept) == len(x.conjuncts(outside.when)):
        return outside.when
    return x.conjunction(kept, outside.when.place) if len(kept) > 1 else kept[0] if kept else None


def constants_of(e: x.Expression) -> Iterator[str]:
    """The constants that an expression reads."""
    return (node.name for node in x.walk(e) if isinstance(node, x.ConstantRef))


def reading(part: object) -> dict[str, x.Expression]:
    """The constants that a part of the model reads, each with the first expression that does."""
    readings: dict[str, x.Expression] = {}
    for whole in parts.expressions(part):
        for name in constants_of(whole):
            readings.setdefault(name, whole)
    return readings


def explored_with(system: System) -> frozenset[str]:
    """The constants that say how far a system is explored: values to try, the last tick, budgets, limits."""
    names = set(system.loaded_with.get("exploring", ()))
    for datum in _data(system):
        for end in datum.explore or ():
            names.update(constants_of(end))
    for bound in (system.constraint, system.initially):
        names.update(constants_of(bound) if bound is not None else ())
    return frozenset(names)


def _data(system: System) -> Iterable[Datum]:
    for role in system.holders.values():
        yield from role.data.values()
        for event in role.events.values():
            yield from event.fields
    for message in system.messages.values():
        yield from message.fields


def machine_constants(system: System) -> Mapping[str, x.Expression | None]:
    """The constants that machines are made of, or read, with an expression that does; None: the loader has read it."""
    readings: dict[str, x.Expression | None] = dict.fromkeys(sorted(system.loaded_with.get("machines", ())))
    for role in system.roles.values():
        for part in (role.states, role.tasks):
            readings |= {name: e for name, e in reading(part).items() if readings.get(name) is None}
    return readings
