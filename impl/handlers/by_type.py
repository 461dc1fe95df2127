"""A handler that chooses another one for each unit, by the unit's type and attributes.

    handler:
      name: by_type
      directory: units
      types:
        - {type: server, where: {rack: a}, handler: {name: composed, directory: units/servers, parts: [...]}}
        - {type: disk, handler: {name: command, setup: ./make_disk, teardown: ./remove_disk}}
        - {handler: {name: process, directory: units/others}}

Theory of operation (paper, section 4.3.2: handlers are registered and selected according to the types and attributes of
the units). The first rule counts whose type is the unit's and whose attributes are among its properties. The choice is
written down before the handler begins, and stays until the unit is down: whatever becomes of the rules meanwhile, a
unit is torn down by the handler that has set it up. A unit that comes to another lease with another handler is first
torn down by the one before.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leasehold.impl.files import Unreadable, read_yaml
from leasehold.impl.handlers.handler import (
    Done,
    Handler,
    HandlerAction,
    HandlerError,
    SaysWhatIsLeft,
    SaysWhatIsUp,
    Stale,
)
from leasehold.impl.handlers.place import folder_name, own_directory, read_file, write_file
from leasehold.impl.policy import plugins
from leasehold.impl.words import choices

ENDS: Mapping[str, str] = {"setup": "teardown", "join": "leave"}  # the verbs by which a unit comes up, and goes down
_KEYS = ("type", "where", "handler")


@dataclass(frozen=True, slots=True)
class TypeRule:
    """A rule.

    Attributes:
        type: of the units; empty: any.
        where: the properties that they have.
        handler: for them.
        name: by which a choice is written down.
    """

    type: str
    where: Mapping[str, Any]
    handler: Handler
    name: str

    def is_for(self, action: HandlerAction) -> bool:
        """Returns whether it is for the unit of an action."""
        type = action.type or str(action.lease_data.get("type", ""))
        has = action.properties
        return self.type in ("", type) and all(name in has and has[name] == v for name, v in self.where.items())


class ByTypeHandler:
    """The handler.

    Args:
        directory: has the choices, a file for each unit; made with access for its owner alone.
        types: the rules, or a file with them; each has `handler`, and may have `type` and `where`.
    """

    def __init__(self, directory: str | Path, types: Sequence[Mapping[str, Any]] | str) -> None:
        self._base = own_directory(Path(directory))
        self._rules = [_rule(given, f"types[{at}]") for at, given in enumerate(_listed(types))]
        names = [rule.name for rule in self._rules]
        if double := next((name for name in names if names.count(name) > 1), None):
            raise HandlerError(f"types: two rules are for {double}, and the first alone would count; remove one")
        limits = [rule.handler.parallel for rule in self._rules if hasattr(rule.handler, "parallel")]
        if limits:
            self.parallel = min(limits)  # an action that a handler lets wait would lose its time

    async def act(self, action: HandlerAction) -> Done:
        """Has an action done by the handler of its unit.

        Raises:
            Stale: the unit has seen a newer action.
            HandlerError: no rule is for the unit, or its handler has failed.
        """
        unit = action.unit or action.lease
        file = self._base / f"{folder_name(unit)}.json"
        chosen, fresh = read_file(file), next((rule for rule in self._rules if rule.is_for(action)), None)
        if chosen.get("number", 0) > action.number:
            raise Stale(f"action {action.number} on {unit} is older than action {chosen['number']}")
        before = self._named(chosen["rule"], unit) if chosen.get("rule") else None
        same = chosen.get("lease") == action.lease or action.verb not in ENDS
        rule = before if before is not None and same else fresh
        if rule is None:
            known = [rule.name for rule in self._rules]
            raise HandlerError(
                f"no rule of `types` is for {unit}, of type {action.type!r} with {dict(action.properties)!r:.200} "
                f"(there are: {', '.join(known)})"
            )
        number = {"number": action.number}
        if before is not None and before is not rule:
            await asyncio.to_thread(write_file, file, {**chosen, **number})
            ended = await before.handler.act(replace(action, verb=ENDS[action.verb], lease=chosen["lease"]))
            if not ended.well:
                return ended
        await asyncio.to_thread(write_file, file, {"rule": rule.name, "lease": action.lease, **number})
        done = await rule.handler.act(action)
        if done.well and action.verb in ENDS.values():
            await asyncio.to_thread(write_file, file, number)
        return done

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        """The facts that the unit's handler has about it."""
        handler = self._of(unit)
        return await handler.probe(unit) if handler is not None else None

    async def is_up(self, unit: str) -> bool | None:
        """Returns what the unit's handler says; None where it cannot say."""
        handler = self._of(unit)
        return await handler.is_up(unit) if isinstance(handler, SaysWhatIsUp) else None

    async def left_of(self, unit: str) -> str:
        """Returns what the unit's handler says is left of it."""
        handler = self._of(unit)
        return await handler.left_of(unit) if isinstance(handler, SaysWhatIsLeft) else ""

    async def close(self) -> None:
        for rule in self._rules:
            await rule.handler.close()

    def _of(self, unit: str) -> Handler | None:
        """The handler that was chosen for a unit; None where none was."""
        rule = read_file(self._base / f"{folder_name(unit)}.json").get("rule", "")
        return self._named(rule, unit).handler if rule else None

    def _named(self, name: str, unit: str) -> TypeRule:
        rule = next((rule for rule in self._rules if rule.name == name), None)
        if rule is None:
            raise HandlerError(
                f"{unit} was set up by the rule {name!r}, which is not among `types` any more; put it back until the "
                f"unit is down{choices(name, [rule.name for rule in self._rules])}"
            )
        return rule


def _listed(types: object) -> Sequence[Any]:
    """The rules that are given, or those of the file."""
    if isinstance(types, str):
        try:
            content = read_yaml(Path(types))
        except Unreadable as error:
            raise HandlerError(f"types: {error}") from None
        return _listed(content.get("types") if isinstance(content, Mapping) else content)
    if not isinstance(types, list) or not types:
        raise HandlerError("types: needs a list of rules, as in [{type: server, handler: {name: process, ...}}]")
    return types


def _rule(given: object, where: str) -> TypeRule:
    if not isinstance(given, Mapping) or "handler" not in given:
        raise HandlerError(f"{where}: needs `handler`, as in {{type: server, handler: {{name: process, ...}}}}")
    for key in given:
        if key not in _KEYS:
            raise HandlerError(f"{where}: there is no key {str(key)[:60]!r}{choices(str(key), _KEYS)}")
    type, attributes, handler = given.get("type", ""), given.get("where") or {}, given["handler"]
    if not isinstance(type, str) or not isinstance(attributes, Mapping):
        raise HandlerError(f"{where}: `type` is a name, and `where` a mapping, as in where: {{rack: a}}")
    settings = dict(handler) if isinstance(handler, Mapping) else {"name": handler or "null"}
    plugin = settings.pop("name", None)
    if not isinstance(plugin, str):
        raise HandlerError(f"{where}: `handler` needs a name, as in {{name: process, directory: units}}")
    try:
        made = plugins.make("handler", plugin, settings)
    except (plugins.PluginError, HandlerError) as error:
        raise HandlerError(f"{where}: {error}") from None
    attributed = f" where {json.dumps(attributes, sort_keys=True, default=str)}" if attributes else ""
    return TypeRule(type, attributes, made, f"{type or 'any type'}{attributed} by {plugin}")
