"""Policies, handlers and detectors as plain functions in a file of one's own: no class, and nothing that is installed.

    from leasehold.impl.policy.functions import task

    @task
    def make(action):
        Path(action.task.replace("/", "-")).write_bytes(b"")

A configuration names the file (`handler: ./volumes.py`), of which each function that is a `task` does what is called by
its name; or one function or class of it (`handlers: {make: ./volumes.py:make}`). A task is durable as every task of a
machine is: it begins again after a restart until its answer is committed, so it has to be idempotent.

A function of a handler takes the action (impl/handlers/handler.py). It runs in a thread, unless it is a coroutine. It
has done well if it returns nothing or true; false, or an exception, is a failure. A text is the event by which the task
ends, with a mapping behind it the event's fields; a mapping alone has the facts to be kept; and a `Done` says all.

A function of a policy takes the question and the time (impl/policy/policy.py). A text is the event of its answer, with
a mapping behind it the event's fields; nothing means that it is asked again at the next tick. It decides by what it is
given alone: a restarted actor asks it again.

A function of a detector is an asynchronous generator: it yields the events that it raises (impl/raised.py).
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.policy.policy import Decision, Lease, Question
from leasehold.impl.raised import RaisedEvent

F = TypeVar("F", bound=Callable[..., Any])
MARK = "leasehold_task"
Functions = Mapping[str, Callable[..., Any]]


def task(function: F) -> F:
    """Marks a function of a file as what is done when a machine's task of its name is called."""
    setattr(function, MARK, True)
    return function


def module_of(file: Path) -> ModuleType:
    """The module in a file, run anew.

    Raises:
        ImportError: there is no such file.
    """
    name = f"leasehold file {file.resolve()}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ImportError(f"there is no file {file}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # classes look their module up there
    spec.loader.exec_module(module)
    return module


def tasks_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions of a module that are tasks, by name."""
    return {name: one for name, one in vars(module).items() if callable(one) and getattr(one, MARK, False)}


class FunctionHandler:
    """A handler whose verbs are functions.

    Args:
        functions: by verb.
        other: does all other verbs; None: there are no others.

    Attributes:
        verbs: the verbs of `functions`, where there are no others.
    """

    def __init__(self, functions: Functions, other: Callable[..., Any] | None = None) -> None:
        self._functions, self._other = dict(functions), other
        if other is None:
            self.verbs = tuple(functions)

    async def act(self, action: HandlerAction) -> Done:
        function = self._functions.get(action.verb, self._other)
        assert function is not None, "the configuration was checked for all verbs"
        if inspect.iscoroutinefunction(function):
            result = await function(action)
        else:
            result = await asyncio.to_thread(function, action)
        return _done(result)

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        return None

    async def close(self) -> None:
        pass


def _done(result: object) -> Done:
    """The result of an action as a function returns it.

    Raises:
        TypeError: it is nothing that an action can come to.
    """
    match result:
        case Done():
            return result
        case None:
            return Done(True)
        case bool():
            return Done(result)
        case str():
            return Done(True, answer=result)
        case (str() as event, Mapping() as fields):
            return Done(True, answer=event, fields=fields)
        case Mapping():
            return Done(True, facts=result)
    raise TypeError(f"a task returns nothing, a truth, an event, facts or a Done, and not {result!r:.60}")


class FunctionPolicy:
    """A policy whose answers are given by functions.

    Args:
        functions: by call.
        other: answers all other calls; None: those stay open.
    """

    def __init__(self, functions: Functions, other: Callable[..., Any] | None = None) -> None:
        self._functions, self._other = dict(functions), other
        self._open: dict[tuple[str, str], Question] = {}

    def recovered(self, lease: Lease) -> None:
        """Nothing is kept of leases."""

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        function = self._functions.get(question.call, self._other)
        if function is None:
            return []
        at, answer = (question.lease.name, question.lease.machine), function(question, now)
        self._open.pop(at, None)
        match answer:
            case None:
                self._open[at] = question
                return []
            case Decision():
                return [answer]
            case str():
                return [question.answer(answer)]
            case (str() as event, Mapping() as fields):
                return [question.answer(event, **fields)]
        raise TypeError(f"a policy's function returns an event, perhaps with fields, or nothing, not {answer!r:.60}")

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        asked = self._open.get((lease.name, lease.machine))
        if asked is not None and asked.lease.state != lease.state:
            del self._open[lease.name, lease.machine]
        return []

    def tick(self, now: int) -> Iterable[Decision]:
        return [decision for question in [*self._open.values()] for decision in self.begin(question, now)]


class FunctionDetector:
    """A detector that is a function: an asynchronous generator of the events that it raises.

    Args:
        functions: one, by its name.
        other: in place of it.
    """

    def __init__(self, functions: Functions, other: Callable[..., Any] | None = None) -> None:
        made = [*functions.values(), *([other] if other is not None else [])]
        if len(made) != 1 or not inspect.isasyncgenfunction(made[0]):
            raise TypeError("a detector is one function with `async def` and `yield`; name it, as in watch.py:kernel")
        self._function = made[0]

    def watch(self) -> AsyncIterator[RaisedEvent]:
        watching: AsyncIterator[RaisedEvent] = self._function()
        return watching


MADE: Mapping[str, Callable[..., Any]] = {
    "handler": FunctionHandler,
    "policy": FunctionPolicy,
    "detector": FunctionDetector,
}
