"""The combinations of first values, and whether `initially` allows any of them.

A system without a first state has no runs: everything holds of it, and nothing can begin. So this is an error of the
specification, which every verb gives that loads it. Where there are too many combinations to try, whoever needs the
first states finds out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice, product
from math import prod

from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.declare.build_fields import constant_value
from leasehold.spec.language.diagnostics import Sink, SpecError
from leasehold.spec.language.model import Datum, System
from leasehold.spec.language.render.evaluate import Context, InTransit, NoState, evaluate

MOST_TRIED = 20_000  # combinations that are tried when a system is loaded


def first_values(datum: Datum, constants: Mapping[str, t.Value], instance: int = 0) -> list[t.Value]:
    """The values that a field of a machine, or a shared variable, may begin with."""
    if not datum.any_initial:
        return [datum.first(instance)]
    ends = datum.explore and tuple(constant_value(e, constants) for e in datum.explore)
    return list(t.domain(datum.type, ends or None))


def check_first_state(system: System, sink: Sink) -> None:
    """Reports that a system has no first state, where few enough combinations have to be tried to know."""
    if system.initially is None:
        return
    constants = system.values()
    fields = [(role.name, i, d) for role, i in system.records() for d in role.data.values()]
    choices = [first_values(d, constants, i) for _, i, d in fields]
    names = [(role, i, d.name) for role, i, d in fields]
    for values in islice(product(*choices), MOST_TRIED):
        view = _FirstState(system, dict(zip(names, values, strict=True)))
        if evaluate(system.initially, Context(view, constants)):
            return
    if prod(map(len, choices)) <= MOST_TRIED:
        _report(system, sink)


def no_first_state(system: System, of: str | None = None) -> SpecError:
    """The error of a system of which no combination of first values is as `initially` says.

    Args:
        system: whose `initially` allows none.
        of: which settings of the system it is about, such as "with a = 3"; left out: that of its constants.
    """
    sink = Sink()
    _report(system, sink, of)
    return SpecError(sink.found)


def _report(system: System, sink: Sink, of: str | None = None) -> None:
    assert system.initially is not None
    if of is None and system.constants:
        of = "with " + ", ".join(f"{name} = {t.show(c.type, c.value)}" for name, c in system.constants.items())
    ends = [e for _, role in system.holders.items() for d in role.data.values() for e in d.explore or ()]
    read = {e.name for whole in (system.initially, *ends) for e in x.walk(whole) if isinstance(e, x.ConstantRef)}
    suffix = f" {of}" if of else ""
    sink.error_of_values("no_first_state", system.initially.place, frozenset(read | system.counting), of=suffix)


class _FirstState(NoState):
    """A state in which no machine has moved, nothing was sent, and every actor is up."""

    def __init__(self, system: System, values: Mapping[tuple[str, int, str], t.Value]) -> None:
        super().__init__()
        self.system, self.values = system, values

    def data(self, role: str, instance: int, name: str) -> t.Value:
        return self.values[role, instance, name]

    def state(self, role: str, instance: int) -> str:
        return self.system.roles[role].first(instance).name

    def pending(self, name: str) -> Iterable[InTransit]:
        return ()

    def heard(self, name: str, role: str = "", instance: int = 0) -> bool:
        return True
