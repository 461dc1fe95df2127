"""The events that `others` of a state stands for: each that must have its place there, and that it does not name.

They stand once, in the state (`Others`). A reading that asks what becomes of an event takes `ignored` and `refused` of
the state, in which they are as those that are named. An event that the state names with guards is named: what the
guards leave over is none of the others.
"""

from __future__ import annotations

from dataclasses import replace

from leasehold.spec.language.model import Role, State, System


def awaited(role: Role, state: State) -> set[str]:
    """The answers that may come while a machine is in the state."""
    return {answer for name in state.tasks if name in role.tasks for answer in role.tasks[name].answers}


def must_cover(system: System, role: Role, state: State) -> list[str]:
    """The events that a state must say something about. A tick that no transition wants is nothing."""
    here = awaited(role, state)
    events = [message.name for message in system.received_by(role.name)]
    return events + [e for e in role.events if e not in role.answers or e in here]


def unnamed(system: System, role: Role, state: State) -> tuple[str, ...]:
    """The events that a state must say something about and does not name."""
    named = {*state.on, *state.ignore, *state.refuse}
    return tuple(event for event in must_cover(system, role, state) if event not in named)


def with_others(system: System) -> System:
    """The system whose states know which events their `others` are."""
    return replace(system, roles={name: _with_others(system, role) for name, role in system.roles.items()})


def _with_others(system: System, role: Role) -> Role:
    states = {
        name: state
        if state.others is None
        else replace(state, others=replace(state.others, events=unnamed(system, role, state)))
        for name, state in role.states.items()
    }
    return replace(role, states=states)
