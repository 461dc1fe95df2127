"""A system as one Python module, and that module loaded."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Iterator
from types import ModuleType

from leasehold.impl.compiler.names import Names, neighbours
from leasehold.impl.compiler.role_source import RoleSource
from leasehold.impl.compiler.runnable import NotRunnable, check
from leasehold.impl.core.core import Program
from leasehold.spec.language.model import Call, Role, System

__all__ = ["NotRunnable", "compile_system", "source_of"]

_IMPORTS = """\
from __future__ import annotations

from functools import partial
from typing import Any

from leasehold.impl.core.core import Answers, Core, Field, MessageShape, Program, Wakes
from leasehold.impl.core.machines import Machines
from leasehold.impl.core.stepping import (
    Table, WorkOf, counted, heard, made, numbered, remembered, unmoved, with_cell,
)
from leasehold.impl.core.work import Call, Drive, Outcome, Stepped, Record, Send, Work
from leasehold.spec.language.types import Bool, Enum, Instance, Int, Map, Opaque, Option, Set, Time
"""


def source_of(system: System) -> str:
    """The Python source of a system.

    Raises:
        NotRunnable: it can only be explored; the message names every reason.
    """
    check(system)
    return "\n".join(_module(system)) + "\n"


def compile_system(system: System) -> Program:
    """A system compiled and loaded; tracebacks show the generated lines.

    Raises:
        NotRunnable: it can only be explored.
    """
    source = source_of(system)
    name = f"<{system.name} {system.digest[:12]} {hashlib.sha256(source.encode()).hexdigest()[:8]}>"
    module = ModuleType(f"leasehold_core_{system.name}")
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile(source, name, "exec"), module.__dict__)
    program: Program = module.__dict__["PROGRAM"]
    return Program(
        program.system, program.digest, program.constants, program.messages, program.roles, program.actors, source
    )


def _module(system: System) -> Iterator[str]:
    yield f'"""The core of `{system.name}`, generated from its specification, which is the text to change.'
    yield ""
    yield f"specification  {system.digest}"
    constants = "  ".join(f"{name}={value!r}" for name, value in system.values().items())
    yield f"constants      {constants or 'none'}"
    yield '"""'
    yield ""
    yield _IMPORTS
    names = Names()
    for name, value in system.values().items():
        yield f"{names.constant('', name)}: {type(value).__name__} = {value!r}"
    below = [role for role in system.roles.values() if role.parent]
    for role in (*below, *(r for r in system.roles.values() if not r.parent)):
        made = RoleSource(system, role, names)
        yield ""
        yield from made.lines()
        yield from _core(system, role, made, names)
    yield ""
    yield "PROGRAM = Program("
    yield f"    system={system.name!r},"
    yield f"    digest={system.digest!r},"
    yield f"    constants={system.values()!r},"
    yield "    messages={"
    for message in system.messages.values():
        fields = tuple((f.name, f.type) for f in message.fields)
        rest = f", answer={message.answer!r}, carries={message.carries or ''!r}"
        yield f"        {message.name!r}: MessageShape({message.sender!r}, {message.receiver!r}, {fields!r}{rest}),"
    yield "    },"
    yield "    roles={"
    for role in system.roles.values():
        yield f"        {role.name!r}: {names.constant(role.name, 'core')},"
    yield "    },"
    yield f"    actors={dict(system.actors)!r},"
    yield ")"


def _core(system: System, role: Role, made: RoleSource, names: Names) -> Iterator[str]:
    initial = [role.initial.name, *(name for name in role.states if not role.states[name].initial)]
    since = {
        task.name: task.answers
        for task in role.tasks.values()
        if isinstance(task, Call) and task.outlives
    }  # fmt: skip
    below = [r for r in system.roles.values() if r.parent == role.name]
    answers = sorted(m.name for m in system.received_by(role.name) if m.answer)
    ends = [s.name for s in role.states.values() if all(c.target == s.name for cs in s.on.values() for c in cs)]
    yield f"{names.constant(role.name, 'core')} = Core("
    yield f"    role={role.name!r},"
    yield f"    indexed={role.indexed!r},"
    yield f"    states={tuple(initial)!r},"
    yield "    fields=("
    for datum in role.data.values():
        yield f"        Field({datum.name!r}, {datum.type!r}, {datum.initial!r}),"
    yield "    ),"
    yield "    events={"
    for event in role.events.values():
        yield f"        {event.name!r}: {tuple((f.name, f.type) for f in event.fields)!r},"
    yield "    },"
    yield f"    neighbours={neighbours(system, role).names()!r},"
    yield f"    since={since!r},"
    yield f"    below=({''.join(names.constant(r.name, 'core') + ', ' for r in below).rstrip()}),"
    yield f"    subsidiary={role.parent is not None!r},"
    for what in ("table", "work", "answers", "wakes"):
        yield f"    {what}={made.table_name(what)},"
    yield f"    heard_answers=frozenset({answers!r}),"
    yield f"    ends=frozenset({ends!r}),"
    yield ")"
    yield ""
