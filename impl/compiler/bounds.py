"""The check of whether a run depends on what bounds exploring only (spec/language/bounds.py).

Theory of operation. What a run *obeys* are its machines, and those contracts to which actors hold their environment.
What a run is *asked* are properties, but for those that no run decides. A constant that bounds exploring must not be
obeyed, and is asked only with its value in a run. One that is declared as a setting, that no run obeys, that says how
far the system is explored, and that a property reads, is such a bound, too, and is to say so: else properties would
hold runs to what was explored. It is the same with a contract that compares the time with how far it is explored.
"""

from __future__ import annotations

from collections.abc import Iterator

from leasehold.impl.compiler.contract_source import held_parts
from leasehold.spec.language import bounds
from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Place, Sink
from leasehold.spec.language.model import System
from leasehold.spec.language.operators import COMPARISONS


def check_bounds(system: System, sink: Sink) -> None:
    """Reports what a run would do, or be asked, by what was explored."""
    machines = bounds.machine_constants(system)
    asked = dict(_asked(system))
    for constant in system.constants.values():
        if not constant.bounds:
            continue
        if constant.name in machines:
            e = machines[constant.name]
            sink.error("machine_reads_bound", constant.place if e is None else e.place, name=constant.name)
        elif constant.name in asked and (constant.running is None or asked[constant.name][2]):
            what, place, _ = asked[constant.name]
            sink.error("asked_by_bound", place, name=constant.name, what=what)
    exploring = bounds.explored_with(system) | _bounding_contracts(system)
    obeyed = machines.keys() | _obeyed(system)
    for constant in system.constants.values():
        if constant.bounds or constant.name in obeyed or constant.name not in exploring:
            continue
        if constant.name in asked and not asked[constant.name][2]:
            what, place, _ = asked[constant.name]
            sink.error("asked_by_what_is_explored", place, name=constant.name, what=what)
        for outside in system.environment.values():
            if (place_ := _compares_time(outside.when, constant.name)) is not None:
                sink.error("time_by_what_is_explored", place_, name=constant.name, contract=outside.name)


def _asked(system: System) -> Iterator[tuple[str, tuple[str, Place, bool]]]:
    """Yields, by constant, a claim that reads it and is asked of runs, its place, and whether the loader read it."""
    for name in system.loaded_with.get("claims", ()):
        yield name, ("a property", system.constants[name].place, True)
    for p in system.properties.values():
        if p.kind != "always_possible":  # of which no run decides anything
            for name, e in bounds.reading((p.when, p.claim)).items():
                yield name, (f"the property `{p.name}`", e.place, False)
    for end in system.ends or ():
        for name, e in bounds.reading(end.holds).items():
            yield name, (f"the end `{end.name}`", e.place, False)


def _obeyed(system: System) -> set[str]:
    """The constants that contracts read to which actors hold what comes from outside; a time is no such thing."""
    enforced = (part for o in system.environment.values() for part in held_parts(system, o))
    return {name for part in enforced for name in bounds.reading(part) if _compares_time(part, name) is None}


def _bounding_contracts(system: System) -> set[str]:
    """The constants that contracts read to which no actor holds anybody, so that they say what is explored."""
    names: set[str] = set()
    for outside in system.environment.values():
        enforced = held_parts(system, outside)
        parts = x.conjuncts(outside.when) if outside.when is not None else ()
        names.update(name for part in parts if part not in enforced for name in bounds.reading(part))
    return names


def _compares_time(e: x.Expression | None, constant: str) -> Place | None:
    """Returns where a contract compares the time with a constant, if it does."""
    for node in x.walk(e) if e is not None else ():
        compares = isinstance(node, x.Apply) and node.op in COMPARISONS and constant in bounds.constants_of(node)
        if compares and x.mentions(node, lambda part: isinstance(part, x.Now)):
            return node.place
    return None
