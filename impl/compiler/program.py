"""A system as one Python module, and that module loaded.

A system can run whose machines read their own record, the event and the clock, and talk by mailboxes. An abstract
specification may read other machines in its guards, share variables, or have channels that no network gives; it is
explored and proved like any other. Everything that stands in the way is found before anything is compiled.
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType

from leasehold.impl.compiler.bounds import check_bounds
from leasehold.impl.compiler.contract_source import contract_lines, not_enforced
from leasehold.impl.compiler.role_source import RoleSource
from leasehold.impl.compiler.work_source import GeneratedNames, named_receivers
from leasehold.impl.core.core import Program
from leasehold.impl.core.sparse import as_run
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.bounds import as_running, endless_bounds
from leasehold.spec.language.check.lint import sent_together
from leasehold.spec.language.diagnostics import Place, Sink, SpecError
from leasehold.spec.language.lower import work_of
from leasehold.spec.language.model import CHANNEL_FAULTS, Call, Datum, Drive, Role, Send, System
from leasehold.spec.language.others import NEUTRAL, others_of, over_all_members
from leasehold.spec.language.parts import expressions

_IMPORTS = """\
from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from leasehold.impl.core.core import Answers, Core, Field, MessageShape, Program, Wakes
from leasehold.impl.core.stepping import (
    Numbers, Table, WorkOf, increment_sent, made, numbered, remembered, unmoved, with_cell,
)
from leasehold.impl.core.work import (
    ActorMachines, CallWork, Contract, DriveWork, Machines, Outcome, Pieces, Record, SendWork, Stepped, Work,
)
from leasehold.spec.language.types import Bool, Enum, Instance, Int, Map, Opaque, Option, Seq, Set, Time
"""


_SPARSE = """\
from leasehold.impl.core.sparse import Sparse
from leasehold.spec.language.types import SparseMap
"""


class NotRunnable(SpecError):
    """A specification that can be explored, but cannot run. It carries every reason."""


def check_runnable(system: System) -> None:
    """Checks whether a system can run.

    Raises:
        NotRunnable: it cannot.
    """
    sink = Sink()
    for channel in system.channels.values():
        if channel.kind == "queue":
            sink.error("queue_of_several", channel.place, channel=channel.name, sender=channel.sender)
        elif channel.kind not in ("mailbox", "fifo"):
            sink.error("channel_of_no_network", channel.place, channel=channel.name, kind=channel.kind)
        elif channel.kind == "fifo" and (faults := [f for f in CHANNEL_FAULTS if getattr(channel, f)]):
            sink.error("fifo_with_faults", channel.place, channel=channel.name, faults=", ".join(faults))
        if channel.on_crash == "lost":
            sink.error("lost_on_crash", channel.place, channel=channel.name)
        for role in (system.roles[channel.sender], system.roles[channel.receiver]):
            if channel.same_index and role.instance.dynamic:
                sink.error("paired_members", channel.place, channel=channel.name, role=role.name)
    for variable in system.shared.values():
        sink.error("shared_at_run_time", variable.place, name=variable.name)
    for message in system.messages.values():
        _check_maps(message.fields, f"message `{message.name}`", sink)
    for role in system.roles.values():
        _Checker(system, role, sink).check()
    if not sink.errors:
        check_bounds(system, sink)
    if sink.errors:
        raise NotRunnable(sink.found)


def _check_maps(fields: Iterable[Datum], what: str, sink: Sink) -> None:
    """A value for each machine of a role of which there may be any number is one for all but those that are named."""
    for datum in fields:
        whole, *inner = t.parts(datum.type)
        values = {"what": f"`{datum.name}` of {what}", "role": ""}
        if t.over_members(whole) and isinstance(whole, t.Map) and whole.rest is ...:
            sink.error("first_value_by_number", datum.place, **values | {"role": str(whole.key)})
        for kind in inner:
            if t.over_members(kind) and isinstance(kind, t.Map):
                sink.error("map_of_members", datum.place, **values | {"role": str(kind.key)})


class _Checker:
    """Looks at one role."""

    def __init__(self, system: System, role: Role, sink: Sink) -> None:
        self.system, self.role, self.sink = system, role, sink
        self.others = others_of(system)
        self.below = {r.name for r in system.roles.values() if r.parent == role.name}

    def check(self) -> None:
        role = self.role
        parent = self.system.roles[role.parent] if role.parent else None
        if parent is not None and parent.parent:
            above = {"parent": parent.name, "grandparent": parent.parent}
            self.sink.error("second_parent", role.place, role=role.name, **above)
        if parent is not None and parent.instance.count > 1 and not self._has_actor(parent.name):
            count = str(parent.instance.count)
            self.sink.error("parents_apart", role.place, role=role.name, parent=parent.name, count=count)
        if role.instance.dynamic:
            self._dynamic()
        what = f"`{role.name}`"
        for fields in (role.data.values(), *(event.fields for event in role.events.values())):
            _check_maps(fields, what, self.sink)
        for datum in role.data.values():
            if datum.begins_as is not None and t.over_members(datum.type):
                if role.instance.dynamic and x.mentions(datum.begins_as, lambda part: isinstance(part, x.Self)):
                    self.sink.error("first_value_of_members", datum.place, role=role.name, datum=datum.name)
            elif datum.begins_as is not None:
                self._reads(datum.begins_as, datum.place, f"the first value of `{datum.name}` of {what}")
                if role.instance.dynamic and not _asks_who(datum.begins_as):
                    self.sink.error("first_value_of_members", datum.place, role=role.name, datum=datum.name)
            if datum.any_initial:
                self.sink.error("any_first_value", datum.place, role=role.name, datum=datum.name)
        for transition in role.transitions():
            what = f"transition {transition.name}"
            self.others = others_of(self.system, self.system.fields_of(role.name, transition.event))
            for e in expressions(transition):
                self._reads(e, transition.place, what)
            for update in transition.updates:
                if update.key is None and update.name in role.data:
                    self._written(update.value, role.data[update.name].type, update.name, transition.place, what)
            for given in transition.passes:
                self._written(given.value, t.with_rest(given.value.type), given.name, transition.place, what)
        self.others = others_of(self.system)
        for task in role.tasks.values():
            what = f"task `{task.name}` of `{role.name}`"
            for e in expressions(task):
                self._reads(e, task.place, what)
            if not isinstance(task, Call):
                shape = self._fields_of(task)
                for name, e in task.fields.items():
                    self._written(e, shape[name].type, name, task.place, what)
            if isinstance(task, Send) and parent is not None:
                self.sink.error("subsidiary_sends", task.place, task=task.name, role=role.name, parent=parent.name)
            if isinstance(task, Send) and not self._names_receivers(task):
                self.sink.error("sends_to_all_members", task.place, task=task.name, role=task.receiver)

        self._one_message_per_neighbour()

    def _one_message_per_neighbour(self) -> None:
        """A step gives one number to each neighbour."""
        role, reported = self.role, set[tuple[str, str]]()
        for transition in role.transitions():
            sends = [task for name in work_of(role, transition) if isinstance(task := role.tasks[name], Send)]
            for first, second in sent_together(sends):
                pair = first.message, second.message
                if pair not in reported:
                    reported.add(pair)
                    values = {"first": pair[0], "second": pair[1], "receiver": first.receiver}
                    self.sink.error("two_in_one_step", transition.place, transition=transition.name, **values)

    def _has_actor(self, role: str) -> bool:
        """Returns whether one actor plays all machines of a role, so that they share a store."""
        return any(role in roles for roles in self.system.actors.values())

    def _names_receivers(self, task: Send) -> bool:
        """Returns whether a message goes to machines of a fixed number, or to those that the task names."""
        dynamic = self.system.roles[task.receiver].instance.dynamic
        return not dynamic or (task.only is not None and named_receivers(task.only) is not None)

    def _dynamic(self) -> None:
        role, system = self.role, self.system
        if not role.indexed:
            self.sink.error("one_member", role.place, role=role.name)
        if not system.standing:
            self.sink.error("member_of_run", role.place, role=role.name, system=system.name)
        for other in system.roles.values():
            if other.name == role.parent or other.parent == role.name:
                self.sink.error("member_drives", role.place, role=role.name, other=other.name)

    def _fields_of(self, task: Send | Drive) -> dict[str, Datum]:
        """The fields that a task fills in."""
        if isinstance(task, Send):
            return {f.name: f for f in self.system.messages[task.message].fields}
        return {f.name: f for f in self.system.fields_of(task.role, task.event)}

    def _written(self, e: x.Expression, kind: t.Type, to: str, place: Place, what: str) -> None:
        """A map that is written as a whole is to be what the field is for machines that nothing tells apart."""
        if not isinstance(kind, t.Map) or kind.rest is ...:
            return
        found = self.others.of_map(e)
        if found is not None and found.value != kind.rest:
            values = {"value": t.show(kind.of, found.value), "rest": t.show(kind.of, kind.rest), "datum": to}
            self.sink.error("other_rest", place, what=what, role=str(kind.key), **values)

    def _maps(self, node: x.Expression, place: Place, what: str) -> None:
        """Reports what would be another value with more machines: in a quantifier over all, or between maps."""
        match node:
            case x.Quantifier(domain=x.Literal_(type=t.Set(of=of))) if over_all_members(node):
                if self.others.who(node) is None:
                    values = {"what": what, "role": str(of), "source": x.as_written(node)}
                    known = None if node.kind not in NEUTRAL else self.others.of(node.body, node.variable)
                    if known is None:
                        self.sink.error("asks_for_all_members", place, what=what, role=str(of))
                    else:
                        wanted, had = (t.show(node.body.type, v) for v in (NEUTRAL[node.kind], known.value))
                        self.sink.error("others_count", place, **values, value=had, neutral=wanted)
            case x.Apply(op="==" | "!=", operands=(one, two)) if t.over_members(one.type):
                rests = [self.others.of_map(side) for side in (one, two)]
                if None in rests or len({repr(rest.value) for rest in rests if rest is not None}) > 1:
                    assert isinstance(one.type, t.Map)
                    self.sink.error("maps_apart", place, what=what, role=str(one.type.key), source=x.as_written(node))
            case x.Data() | x.Argument():
                pass
            case _ if t.over_members(node.type) and self.others.of_map(node) is None:
                assert isinstance(node.type, t.Map)
                self.sink.error("asks_for_all_members", place, what=what, role=str(node.type.key))

    def _reads(self, e: x.Expression, place: Place, what: str) -> None:
        asked = {id(node.domain) for node in x.walk(e) if isinstance(node, x.Quantifier) and over_all_members(node)}
        for node in x.walk(e):
            self._maps(node, place, what)
            match node:
                case x.Data(role=x.SHARED.name):
                    pass  # the variable itself is refused
                case x.Data(role=role, owner=owner) | x.ControlState(role=role, owner=owner) if not (
                    role in self.below or owner is None or isinstance(owner, x.Self)
                ):
                    self.sink.error("reads_another_machine", place, what=what, role=role)
                case x.Pending(name=name):
                    self.sink.error("reads_pending", place, what=what, name=name)
                case x.Literal_(type=t.Set() as kind, value=value) if id(node) not in asked and _is_all_of_dynamic(
                    kind, value
                ):
                    self.sink.error("asks_for_all_members", place, what=what, role=str(kind.of))
                case x.InstanceAt(type=of) if of.dynamic:
                    self.sink.error("asks_for_all_members", place, what=what, role=of.name)
                case x.ConstantRef(name=name):
                    for of in (r.instance for r in self.system.roles.values()):
                        if of.dynamic and of.counted_by == name:
                            self.sink.error("asks_for_all_members", place, what=what, role=of.name)


def _asks_who(e: x.Expression) -> bool:
    """Returns whether an expression reads the machine's own name only to ask whether it is a certain machine."""
    asked = [o for part in x.walk(e) if isinstance(part, x.Apply) and part.op in ("==", "!=") for o in part.operands]
    return sum(isinstance(part, x.Self) for part in x.walk(e)) == sum(isinstance(part, x.Self) for part in asked)


def _is_all_of_dynamic(kind: t.Set, value: t.Value) -> bool:
    """Returns whether a value has every machine of a dynamic role."""
    of = kind.of
    return isinstance(of, t.Instance) and of.dynamic and of.count > 1 and value == frozenset(t.members(of))


def source_of(system: System) -> str:
    """The Python source of a system.

    Raises:
        NotRunnable: it can only be explored; the message names every reason.
    """
    check_runnable(system)
    return "\n".join(_module(as_running(system))) + "\n"


def compile_system(system: System) -> Program:
    """A system compiled and loaded; tracebacks show the generated lines.

    Raises:
        NotRunnable: it can only be explored.
    """
    system = as_running(system)
    source = source_of(system)
    name = f"<{system.name} {system.digest[:12]} {hashlib.sha256(source.encode()).hexdigest()[:8]}>"
    module = ModuleType(f"leasehold_core_{system.name}")
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile(source, name, "exec"), module.__dict__)
    program: Program = module.__dict__["PROGRAM"]
    return Program(
        program.system,
        program.digest,
        program.constants,
        program.messages,
        program.roles,
        program.actors,
        program.standing,
        program.begun_by,
        program.relayed_by,
        program.own_constants,
        {name: _from_outside(system, name) for name in system.roles},
        {name: _from_below(role) for name, role in system.roles.items()},
        {name: _asked_of_policies(role) for name, role in system.roles.items()},
        source,
    )


def _from_outside(system: System, role: str) -> tuple[str, ...]:
    """The events that the world outside gives the machines of a role, in the order of the specification."""
    return tuple(dict.fromkeys(outside.event for outside in system.environment.values() if outside.role == role))


def _from_below(role: Role) -> frozenset[str]:
    """The events of a role that come when its subsidiary machines have come to where it waits for them."""
    return frozenset(event for task in role.tasks.values() if isinstance(task, Drive) for event in task.answers)


def _asked_of_policies(role: Role) -> frozenset[str]:
    """The events of a role that answer its questions to policies."""
    calls = (task for task in role.tasks.values() if isinstance(task, Call) and task.target.startswith("policy."))
    return frozenset(event for call in calls for event in call.answers)


def _module(system: System) -> Iterator[str]:
    yield f'"""The core of `{system.name}`, generated from its specification, which is the text to change.'
    yield ""
    yield f"specification  {system.digest}"
    constants = "  ".join(f"{name}={value!r}" for name, value in system.settings().items())
    yield f"constants      {constants or 'none'}"
    if missing := not_enforced(system):
        yield ""
        yield from map(str, missing)
    yield '"""'
    yield ""
    yield _IMPORTS
    if any(t.as_run(datum.type) is not datum.type for datum in _every_field(system)):
        yield _SPARSE
    names = GeneratedNames()
    endless = endless_bounds(system)
    for name, value in system.values().items():
        if name in endless:
            continue
        yield f"{names.constant('', name)}: {type(value).__name__} = {value!r}"
    below = [role for role in system.roles.values() if role.parent]
    for role in (*below, *(r for r in system.roles.values() if not r.parent)):
        role_source = RoleSource(system, role, names)
        yield ""
        yield from role_source.lines()
        yield from contract_lines(role_source)
        yield from _core(system, role, role_source, names)
    yield ""
    messages = []
    for message in system.messages.values():
        fields = tuple((f.name, t.as_run(f.type)) for f in message.fields)
        rest = f", answer={message.answer!r}, carries={message.carries or ''!r}"
        channel = system.channel_of(message.name)
        if apart := system.apart_of(message.name):
            rest += f", channel={apart!r}"
        if channel.kind == "fifo":
            rest += f", ordered=True, capacity={channel.capacity or 0}"
        messages.append(f"{message.name!r}: MessageShape({message.sender!r}, {message.receiver!r}, {fields!r}{rest})")
    roles = [f"{role.name!r}: {names.constant(role.name, 'core')}" for role in system.roles.values()]
    yield from _made(
        "PROGRAM = Program",
        {
            "system": repr(system.name),
            "digest": repr(system.digest),
            "constants": repr(system.settings()),
            "messages": ("{", messages, "}"),
            "roles": ("{", roles, "}"),
            "actors": repr(dict(system.actors)),
            "standing": repr(system.standing),
            "begun_by": repr(system.runs.begun_by),
            "relayed_by": repr(system.runs.relayed_by),
            **({"own_constants": f"frozenset({own!r})"} if (own := own_constants(system)) else {}),
        },
    )


def own_constants(system: System) -> list[str]:
    """The constants that actors need not have alike: they count the machines of dynamic roles, and nothing else."""
    dynamic = {r.instance.counted_by for r in system.roles.values() if r.instance.dynamic}
    static = {i.counted_by for i in system.counted() if not i.dynamic}
    return sorted(dynamic - static - system.bounding - {""})


def _core(system: System, role: Role, role_source: RoleSource, names: GeneratedNames) -> Iterator[str]:
    near = role_source.near
    initial = [*(s.name for s in role.initial), *(name for name in role.states if not role.states[name].initial)]
    since = {task.name: task.answers for task in role.tasks.values() if isinstance(task, Call) and task.outlives}
    below = "".join(
        names.constant(r.name, "core") + ", " for r in system.roles.values() if r.parent == role.name
    ).rstrip()
    answers = sorted(m.name for m in system.received_by(role.name) if m.answer)
    ends = [s.name for s in role.states.values() if s.over]
    begun = any(m.name in s.on for m in system.received_by(role.name) for s in role.initial)
    fields = [_field(datum) for datum in role.data.values()]
    events = [f"{e.name!r}: {tuple((f.name, t.as_run(f.type)) for f in e.fields)!r}" for e in role.events.values()]
    yield from _made(
        f"{names.constant(role.name, 'core')} = Core",
        {
            "role": repr(role.name),
            "indexed": repr(role.indexed),
            "count": repr(role.count),
            "states": repr(tuple(initial)),
            "fields": ("(", fields, ")"),
            "events": ("{", events, "}"),
            "neighbours": repr(near.names()),
            "since": repr(since),
            "below": f"({below})",
            "subsidiary": repr(role.parent is not None),
            **{
                table: role_source.constant("all", table)
                for table in ("table", "work", "answers", "wakes", "contracts")
            },
            "heard_answers": f"frozenset({answers!r})",
            "ends": f"frozenset({ends!r})",
            **({"of_run": repr(role.of_run)} if role.of_run else {}),
            **({"begin": repr(role.begin)} if role.begin else {}),
            **({"dynamic": repr(role.instance.dynamic)} if role.instance.dynamic else {}),
            **({"dynamic_neighbours": repr(tuple(role for role, _ in near.dynamic))} if near.dynamic else {}),
            **({"channels": repr(near.channels)} if near.channels else {}),
            "introduced": repr(near.several and begun),
        },
    )
    yield ""


def _field(datum: Datum) -> str:
    kind = t.as_run(datum.type)
    initial, *begin = (as_run(kind, value) for value in (datum.initial, *datum.begin))
    return f"Field({datum.name!r}, {kind!r}, {initial!r}{f', {tuple(begin)!r}' if begin else ''})"


def _every_field(system: System) -> Iterator[Datum]:
    for role in system.roles.values():
        yield from role.data.values()
        for event in role.events.values():
            yield from event.fields
    for message in system.messages.values():
        yield from message.fields


def _made(head: str, arguments: Mapping[str, str | tuple[str, list[str], str]]) -> Iterator[str]:
    """A call with each argument on a line of its own; a tuple or a dictionary has a line for each of its items."""
    yield f"{head}("
    for name, value in arguments.items():
        if isinstance(value, str):
            yield f"    {name}={value},"
        else:
            opening, items, closing = value
            yield f"    {name}={opening}"
            yield from (f"        {item}," for item in items)
            yield f"    {closing},"
    yield ")"
