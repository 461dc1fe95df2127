"""The states of a system: where what lies in them, the first ones, and what can be asked of one.

Properties, bounds and reports ask them; reference.py adds the steps.
"""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.ground import Function, GroundMachine, function
from leasehold.checker.explore.layout import Layout, State
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.check.first_states import first_values, no_first_state
from leasehold.spec.language.lower import Relation
from leasehold.spec.language.model import machine_name
from leasehold.spec.language.render.python_source import Frame, source


class States:
    """The states of a lowered form.

    Attributes:
        layout: where the parts of a state lie.
        machines: in order; `by_name` has them by role and instance, `machines_of` by the name of their actor.
        budgeted: of each kind of fault with a limit, how many a run may have; `limited` are their names.
    """

    def __init__(self, relation: Relation) -> None:
        self.relation, self.system = relation, relation.system
        self.layout = Layout(relation)
        self.machines = [GroundMachine(relation, self.layout, role, i) for role, i in self.system.machines()]
        self.by_name = {(m.role.name, m.instance): m for m in self.machines}
        self.machines_of = {a.name: [self.by_name[m] for m in a.machines] for a in self.layout.actors}
        self.limited, self.budgeted = list(relation.limits), tuple(relation.limits.values())
        self._bounds = [function(text) for text in self.bounds]

    def initial_states(self) -> list[State]:
        """The states in which runs begin.

        Raises:
            SpecError: `initially` allows none.
        """
        system = self.system
        cells: list[list[Any]] = []
        for role, instance in system.records():
            cells += [[role.first(instance).name]] if role.states else []
            cells += [first_values(d, system.values(), instance) for d in role.data.values()]
        cells += [[channels.empty(lane.channel.kind)] for lane in self.layout.lanes]
        cells += [[getattr(system.channels[name], fault)] for name, fault in self.layout.budgets]
        cells += [] if system.clock is None else [[0]]
        cells += [[value] for value in self.layout.initial()]
        states = [tuple(c) for c in product(*cells)]
        if system.initially is None:
            return states
        holds = self.function(system.initially)
        allowed = [s for s in states if holds(s, (), -1)]
        if not allowed:
            raise no_first_state(system)
        return allowed

    @cached_property
    def bounds(self) -> list[str]:
        """Sources of what holds within the bounds: the state constraint, and the explored ranges of data."""
        frame = Frame(self.layout, self.system.values())
        bounds = [] if self.system.constraint is None else [source(self.system.constraint, frame)]
        for role, i in self.system.records():
            for datum in role.data.values():
                if datum.explore is not None:
                    low, high = (source(e, frame) for e in datum.explore)
                    value = f"s[{self.layout.at(role.name, i, datum.name)}]"
                    absent = f"{value} is None or " if isinstance(datum.type, t.Option) else ""
                    bounds.append(f"({absent}{low} <= {value} <= {high})")
        return bounds

    def within_bounds(self, state: State) -> bool:
        """Returns whether the state satisfies the state constraint and the explored ranges of data."""
        return all(holds(state, (), -1) for holds in self._bounds)

    def function(self, e: x.Expression) -> Function:
        """An expression over the whole state as a function."""
        return function(source(e, Frame(self.layout, self.system.values())))

    def asks(self, e: x.Expression) -> bool:
        """Returns whether an expression speaks only of machines that keep to their specification."""
        roles = {m.role for m in self.layout.traitor.machines} if self.layout.traitor is not None else set()

        def speaks(node: x.Expression) -> bool:
            if isinstance(node, x.MessageField) and node.name in ("sender", "receiver"):
                return bool(self.layout.known)  # of what a traitor has received, nobody knows from whom it was
            if isinstance(node, x.Pending):
                channel = self.system.channels.get(node.name) or self.system.channel_of(node.name)
                return bool({channel.sender, channel.receiver} & roles) and node.name not in self.layout.known
            if isinstance(node, x.GlobalQuery):
                return node.name == "running" and node.subjects[0] in roles
            return isinstance(node, x.Data | x.ControlState | x.Took) and node.role in roles

        return not roles or not x.mentions(e, speaks)

    def product(self) -> list[tuple[str, int]]:
        """The machines of the product by name, and the cells of their control states."""
        roles = [self.system.roles[name] for name in self.system.product]
        return [(machine_name(r, i), self.layout.at(r.name, i, None)) for r in roles for i in range(r.count)]
