"""Transitions that several states share: a role's `shared` groups, put into each of their states.

All that is read of a role afterwards (outlive.py, build.py) has them as if they stood in the states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from leasehold.spec.language.diagnostics import Place, Sink, a
from leasehold.spec.language.read.source import KeyedNode, YamlNode


def with_shared(name: str, role: YamlNode, sink: Sink) -> YamlNode:
    """A role's tree whose states have the transitions that they share."""
    groups = role.get("shared")
    if groups is None:
        return role
    states = {state: node for state, _, node in role.pairs_of("states")}
    first = {(state, event): place for state, node in states.items() for event, place, _ in node.pairs_of("on")}
    for state, event, place, choices in _shared(name, groups, states, sink):
        if (state, event) in first:
            sink.error("shared_twice", place, event=event, role=name, state=state, place=first[state, event])
        else:
            first[state, event] = place
            on = states[state].get("on") or YamlNode("mapping", place)
            whole = replace(on, entries=(*on.entries, (event, KeyedNode(place, choices))))
            states[state] = _with(states[state], "on", whole)
    declared = role.pairs_of("states")
    entries = tuple((state, KeyedNode(place, states[state])) for state, place, _ in declared)
    return _with(role, "states", replace(role.get("states") or role, entries=entries))


def _with(node: YamlNode, key: str, value: YamlNode) -> YamlNode:
    """A mapping with another value of a key, or with one more."""
    entries = {name: KeyedNode(place, of) for name, place, of in node.pairs()}
    return replace(node, entries=tuple({**entries, key: KeyedNode(node.key_place(key), value)}.items()))


def _shared(
    name: str, groups: YamlNode, states: dict[str, YamlNode], sink: Sink
) -> Iterator[tuple[str, str, Place, YamlNode]]:
    """Each state and event of the groups, with the event's place and its transitions."""
    for group in groups:
        for state in group.names("in"):
            if state.text not in states:
                sink.unknown("unknown_state", state.place, state.text, states, role=a(name))
                continue
            for event, place, choices in group.pairs_of("on"):
                yield state.text, event, place, choices
