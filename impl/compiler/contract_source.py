"""The contracts of `environment` as Python source: what a running actor holds events from outside to.

Theory of operation. An action under `environment` says when its event may come: the contract of the policy, handler or
client that it comes from. A running actor asks it before the commit, over the records as they are in that turn: its
machine's own, those of the units below, and, where a quantifier ranges over the machines of a role, those of all runs
that the actor has. What no actor knows (the machines of others, true time, messages on their way, who runs) cannot be
asked. Of a contract whose parts `and` joins the other parts are asked; `not_enforced` says what is left out, and why.

That a value lies after `now` is asked of the actor's clock, to which true time has come: so nothing is refused that the
contract allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from leasehold.impl.compiler.lines import bare
from leasehold.impl.compiler.work_source import WorkSource, record_shape
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Outside, System
from leasehold.spec.language.render.python_source import Frame, SourceLayout, source

AS_VALUES = "it uses machines as values, whose numbers are those of one run"
OWN = "own"  # in generated source: the position of the machine itself among the machines of its role


class NotEnforced(NamedTuple):
    """A contract that running actors do not enforce, or not whole.

    Attributes:
        name: of the action under `environment`.
        role, event: of the machine that the event is for.
        reason: why not, in words that follow "as".
        part: the part that is left out; empty: all of it.
    """

    name: str
    role: str
    event: str
    reason: str
    part: str = ""

    def __str__(self) -> str:
        but = f"enforced but for `{self.part}`" if self.part else "not enforced"
        return f"contract `{self.name}` ({self.role}, {self.event}) is {but}, as {self.reason}"


def not_enforced(system: System) -> tuple[NotEnforced, ...]:
    """The contracts that running actors do not enforce, in the order of the specification."""
    gaps = []
    for entry in system.environment.values():
        if entry.when is None:
            continue
        named = entry.name, entry.role, entry.event
        left_out = [part for part in x.conjuncts(entry.when) if _reasons(system, entry.role, part)]
        if reason := _obstacle(system, entry):
            gaps.append(NotEnforced(*named, reason))
        elif left_out:
            why = dict.fromkeys(reason for part in left_out for reason in _reasons(system, entry.role, part))
            gaps.append(NotEnforced(*named, ", and ".join(why), " and ".join(map(x.text, left_out))))
    return tuple(gaps)


def _obstacle(system: System, entry: Outside) -> str:
    """Returns why no part of a contract can be enforced, or is to be; empty: one is."""
    if not entry.enforced:
        return "it says `enforced: false`"
    assert entry.when is not None
    if not _enforced(system, entry.role, entry.when):
        return ", and ".join(dict.fromkeys(_unknown(system, entry.role, entry.when)))
    for other in _of_event(system, entry.role, entry.event):
        if other.when is None:
            return f"`{other.name}` lets the event come at any time"
        if other is not entry and not other.enforced:
            return f"`{other.name}`, which may offer the event too, says `enforced: false`"
        if other is not entry and not _enforced(system, other.role, other.when):
            why = next(_unknown(system, other.role, other.when), "")
            return f"`{other.name}`, which may offer the event too, {why.removeprefix('it ')}"
    return ""


def _enforced(system: System, role: str, when: x.Expression) -> tuple[x.Expression, ...]:
    """The parts of a contract that an actor can hold events to."""
    return tuple(part for part in x.conjuncts(when) if not _reasons(system, role, part))


def _reasons(system: System, role: str, part: x.Expression) -> list[str]:
    """Returns why an actor cannot hold an event to a part of its contract."""
    match part:
        case x.Apply(op=">" | ">=", operands=(later, x.Now())) | x.Apply(op="<" | "<=", operands=(x.Now(), later)):
            return list(_unknown(system, role, later))
    return list(_unknown(system, role, part))


def held_parts(system: System, entry: Outside) -> tuple[x.Expression, ...]:
    """The parts of a contract where running actors refuse the event if they do not hold."""
    enforced = entry.when is not None and not _obstacle(system, entry)
    return _enforced(system, entry.role, entry.when) if enforced and entry.when is not None else ()


def _of_event(system: System, role: str, event: str) -> list[Outside]:
    return [other for other in system.environment.values() if (other.role, other.event) == (role, event)]


def is_known(system: System, role: str, e: x.Expression) -> bool:
    """Returns whether an actor with a role's machine can evaluate an expression."""
    return next(_unknown(system, role, e), None) is None


def _unknown(system: System, role: str, e: x.Expression) -> Iterator[str]:
    """The parts of an expression that an actor with a role's machine cannot evaluate."""
    one_run = not _is_of_several_runs(system, role, e)
    yield from (reason for reason in _unknown_parts(system, role, e) if reason != AS_VALUES or not one_run)


def _is_of_several_runs(system: System, role: str, e: x.Expression) -> bool:
    """Returns whether an expression reads other machines, or the number of the machine itself.

    Where it does not, the machines that it names as values are all of the run of the machine itself.
    """
    match e:
        case x.Data(role=other, owner=owner) | x.ControlState(role=other, owner=owner):
            if _is_own(owner) or _is_only(system, other, owner):
                return False
            if system.roles[other].parent is None:
                return True
        case x.Quantifier(domain=domain) if x.holds_all_members(domain) and _names_talking(system, domain.type):
            return True
        case x.Self() | x.BoundVariable(name="it"):
            return _names_talking(system, e.type)
    return any(_is_of_several_runs(system, role, child) for child in x.children(e))


def _unknown_parts(system: System, role: str, e: x.Expression) -> Iterator[str]:
    """Yields what `_unknown` does, and each use of a machine as a value."""
    match e:
        case x.Data(role=other, owner=owner) | x.ControlState(role=other, owner=owner):
            if _names_talking(system, e.type):
                yield AS_VALUES
            if system.roles[other].parent == role:
                if owner is not None:
                    yield from _unknown_parts(system, role, owner)
            elif not (other == role and (_is_own(owner) or _is_only(system, role, owner))):
                if system.roles[other].parent:
                    yield f"it reads machines of `{other}`, which are subsidiary to `{system.roles[other].parent}`"
                elif not any({role, other} <= set(roles) for roles in system.actors.values()):
                    whose = "other machines of" if other == role else "machines of"
                    yield f"it reads {whose} `{other}`, which other actors play"
                elif not (owner is None or isinstance(owner, x.BoundVariable) or _is_only(system, other, owner)):
                    yield f"it reads a machine of `{other}` by its number"
            return
        case x.Now():
            yield "it reads `now`, which is true time, and no actor's clock"
        case x.Accepts():
            yield "it asks what a machine accepts"
        case x.Pending() | x.MessageField():
            yield "it reads messages on their way"
        case x.GlobalQuery(name=name):
            yield f"it asks `{name}`, which no actor knows"
            return
        case x.Quantifier(domain=domain) if x.holds_all_members(domain):
            if e.kind == "map" and _names_talking(system, e.type):
                yield AS_VALUES
            for part in (e.condition, e.body, e.default):
                if part is not None:
                    yield from _unknown_parts(system, role, part)
            return
        case x.Apply(op="==" | "!=", operands=(one, two)) if _is_machine(one) and _is_machine(two):
            return
        case x.BoundVariable() | x.Self() | x.Literal_() | x.Argument() | x.Apply() if _names_talking(system, e.type):
            yield AS_VALUES
    for child in x.children(e):
        yield from _unknown_parts(system, role, child)


def _is_own(owner: x.Expression | None) -> bool:
    """Returns whether the owner of a value is the machine to which the event is offered."""
    return owner is None or isinstance(owner, x.Self) or (isinstance(owner, x.BoundVariable) and owner.name == "it")


def _is_only(system: System, role: str, owner: x.Expression | None) -> bool:
    """Returns whether the owner of a value is the one machine that its role has in a run."""
    return not system.roles[role].indexed and isinstance(owner, x.Literal_)


def _is_machine(e: x.Expression) -> bool:
    return isinstance(e, x.BoundVariable | x.Self)


def _names_talking(system: System, kind: object) -> bool:
    """Returns whether a value names machines of a role that is no subsidiary one."""
    match kind:
        case t.Instance(name=name):
            return name in system.roles and system.roles[name].parent is None
        case t.Set(of=of) | t.Option(of=of) | t.Seq(of=of):
            return of is not None and _names_talking(system, of)
        case t.Map(key=key, of=of):
            return _names_talking(system, key) or _names_talking(system, of)
    return False


@dataclass(frozen=True, slots=True)
class _ContractLayout(SourceLayout):
    """The own record in local names, the records of the actor's other machines in a list for each role."""

    work: WorkSource

    def place(self, role: str, name: str | None, instance: str | None) -> str:
        own = self.work.role.name
        alone = instance == OWN or (instance == "0" and not self.work.system.roles[role].indexed)
        if role == own and alone:
            return "state" if name is None else self.work.shape.data[name]
        if role in self.work.shape.subsidiaries:
            return self.work.layout.place(role, name, instance)
        other = record_shape(self.work.system, self.work.system.roles[role])
        at = 0 if name is None else other.at(other.data[name])
        which = f"machines.of_run({role!r})" if alone else f"machines[{role!r}][{instance}]"
        return f"{which}[{at}]"

    def members(self, of: t.Instance | t.Enum) -> str:
        if isinstance(of, t.Instance) and _names_talking(self.work.system, of):
            return f"range(len(machines[{of.name!r}]))"
        return SourceLayout.members(self, of)


def _constants(e: x.Expression) -> Iterator[str]:
    if isinstance(e, x.ConstantRef):
        yield e.name
    for child in x.children(e):
        yield from _constants(child)


def contract_lines(work: WorkSource) -> Iterator[str]:
    """The contracts of a role's events: a function for each, and their table."""
    system, role = work.system, work.role
    missing = {entry.name for entry in not_enforced(system) if not entry.part}
    rows = []
    for event in role.events:
        entries = _of_event(system, role.name, event)
        if not entries or any(entry.when is None or entry.name in missing for entry in entries):
            continue
        fields = system.fields_of(role.name, event)
        function = work.names.function(role.name, "contract", event)
        frame = Frame(
            _ContractLayout(work),
            work.values,
            OWN,
            {f.name: f"event_{f.name}" for f in fields},
            variables={"it": OWN},
            state="",
            constant_names=work.constants,
            unrolled=False,
            now="now",
        )
        kept = [_enforced(system, role.name, entry.when) for entry in entries if entry.when is not None]
        wholes = [parts[0] if len(parts) == 1 else x.conjunction(parts) for parts in kept]
        allowed = " or ".join(source(whole, frame) for whole in wholes)
        yield f"def {function}(record: Record, fields: tuple[Any, ...], machines: ActorMachines, now: int) -> bool:"
        yield from work.unpacked()
        if fields:
            yield f"    ({', '.join(f'event_{f.name}' for f in fields)},) = fields"
        if re.search(rf"\b{OWN}\b", allowed):
            yield f"    {OWN} = machines.own"
        yield f"    return bool({bare(allowed)})"
        yield ""
        names = tuple(entry.name for entry in entries)
        doc = " ".join(" ".join(entry.doc.split()) for entry in entries if entry.doc)
        values = {name: work.values[name] for whole in wholes for name in _constants(whole)}
        text = "; ".join([" or ".join(map(x.text, wholes)), *(f"{name} is {value}" for name, value in values.items())])
        rows.append(f"{event!r}: Contract({names!r}, {doc!r}, {text!r}, {function})")
    yield f"{work.constant('all', 'contracts')}: Mapping[str, Contract] = {{{', '.join(rows)}}}"
    yield ""
