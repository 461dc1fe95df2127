"""Shapes of systems that the lease lacks, such as sessions; and rules that only a liar, or who hangs, would break."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from leasehold.impl.actor import session
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.calls import HandlerCalls
from leasehold.impl.actor.environment import CredentialRequest
from leasehold.impl.actor.messages import MessageHandler
from leasehold.impl.actor.outbox import Outbox
from leasehold.impl.actor.policy_desk import PolicyDesk
from leasehold.impl.actor.ready import Deliver, Ready, Request
from leasehold.impl.actor.requests import Requests
from leasehold.impl.actor.standing import StandingMachines
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MEMBERSHIP, MachineInstance
from leasehold.impl.actor.upcalls import Upcalls
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.work import SendWork
from leasehold.impl.lease.credentials import AUTHORITY, TicketCredentials
from leasehold.impl.store.store import RecordKey
from tests.seeded_bugs.bug import RUNTIME, Planted, bug, patched
from tests.seeded_bugs.records import rows

LATE = 1_000  # times the limit


# Sessions


@bug(
    "sessions", RUNTIME, systems=(),
    tests="tests/impl/actor/test_session.py::test_a_reader_that_is_killed_amid_a_commit_gets_the_line_again",
)  # fmt: skip
def session_acknowledged_before_the_commit() -> Planted:
    """A message of a session is acknowledged while its commit is still to come, so its sender forgets it."""

    def make(step: Any) -> Any:
        def early(actor: Actor, ready: Ready, request: Request) -> Any:
            reply = step(actor, ready, request)
            future = actor.queue.turn[-1].reply
            if isinstance(request, Deliver) and future is not None and not future.done():
                future.set_result(reply)
            return reply

        return early

    return patched(Actor, "_step", make)


@bug("sessions", RUNTIME, systems=("pipe",))
def session_not_saved() -> Planted:
    """A record is written without the messages of its sessions that are not acknowledged."""
    return rows(lambda held: replace(held, metadata=_without(held.metadata, session.SESSIONS)))


@bug("sessions", RUNTIME, systems=("pipe",))
def session_not_resumed() -> Planted:
    """Recovery keeps the messages of a session, and does not go on sending them."""

    def make(start_again: Any) -> Any:
        def silent(stepper: Stepper, ready: Ready, held: MachineInstance) -> None:
            kept = held.metadata.pop(session.SESSIONS, None)
            start_again(stepper, ready, held)
            if kept is not None:
                held.metadata[session.SESSIONS] = kept

        return silent

    return patched(Stepper, "start_again", make)


@bug(
    "sessions", RUNTIME, systems=(),
    tests="tests/impl/actor/test_session.py::test_every_line_comes_once_and_in_order",
)  # fmt: skip
def session_newest_first() -> Planted:
    """A session sends its newest message first."""

    def make(add: Any) -> Any:
        def front(instance: MachineInstance, send: SendWork, *more: Any) -> None:
            add(instance, send, *more)
            waiting = instance.metadata[session.SESSIONS][str(send.neighbour)]
            waiting.insert(0, waiting.pop())

        return front

    return patched(session, "add", make)


@bug("sessions", RUNTIME, systems=("pipe",))
def session_without_bounds() -> Planted:
    """A step sends into a channel that is full."""
    return patched(session, "check_room", lambda check: lambda *given: None)


# Standing systems


@bug("standing systems", RUNTIME, systems=("pipe", "ring", "register"))
def machine_not_made_at_start() -> Planted:
    """The machines of a standing system are not made when their actor starts."""
    return patched(StandingMachines, "ensure", lambda ensure: lambda standing, ready: None)


@bug("standing systems", RUNTIME, systems=("pipe", "ring", "register"))
def machine_made_anew_at_start() -> Planted:
    """The machines of a standing system are made at every start, also those that the store has."""

    def make(ensure: Any) -> Any:
        def anew(standing: StandingMachines, ready: Ready) -> None:
            first = standing.program.standing and standing._settings is None
            for name in standing.program.talking if first else ():
                standing.table.instances.pop(RecordKey(standing.program.only_run, name), None)
            ensure(standing, ready)

        return anew

    return patched(StandingMachines, "ensure", make)


@bug(
    "standing systems", RUNTIME, systems=(),
    tests="tests/impl/actor/test_membership.py::test_another_actor_may_take_a_place_over_between_two_starts",
)  # fmt: skip
def peers_not_refreshed() -> Planted:
    """At a restart, a machine of a standing system keeps its neighbours' players, whatever the settings say now."""

    def make(follow: Any) -> Any:
        def keep(standing: StandingMachines, ready: Ready, instance: MachineInstance, peers: Mapping[str, str]) -> None:
            if not any(known for _, known in instance.addressed):
                follow(standing, ready, instance, peers)

        return keep

    return patched(StandingMachines, "_follow", make)


# Memberships


@bug(
    "memberships", RUNTIME, systems=(),
    tests="tests/impl/actor/test_membership.py::"
    "test_nobody_begins_a_run_in_anothers_name_nor_changes_who_plays_in_it",
)  # fmt: skip
def membership_not_checked() -> Planted:
    """Who begins a machine of a run is believed to be who plays in it; nobody asks what the run's origin has signed."""

    def make(members: Any) -> Any:
        def believe(handler: MessageHandler, envelope: Any) -> Mapping[str, str]:
            return {envelope.sending_machine: envelope.sender}

        return believe

    return patched(MessageHandler, "_members", make)


@bug("memberships", RUNTIME, systems=("three_phase_commit_termination",))
def membership_not_saved() -> Planted:
    """A record is written without the membership of its run."""
    return rows(lambda held: replace(held, metadata=_without(held.metadata, MEMBERSHIP)))


# Contracts of the environment


@bug(
    "contracts", RUNTIME, systems=(),
    tests="tests/impl/actor/test_contracts.py::test_a_unit_is_not_given_out_twice_whatever_the_policy_says",
)  # fmt: skip
def contracts_not_enforced() -> Planted:
    """A machine takes every event of its policy, whatever the specification says of when it may come."""
    return patched(
        Core, "step_outside", lambda step: lambda core, record, event, now, machines: core.step(record, event, now)
    )


# Time limits, identifiers and addresses


@bug(
    "policies", RUNTIME, systems=(),
    tests="tests/impl/actor/test_hostile_policies.py::test_a_late_answer_is_dropped_and_the_next_one_counts",
)  # fmt: skip
def policy_time_limit_not_kept() -> Planted:
    """A policy that does not answer within its limit is waited for."""

    def make(ask: Any) -> Any:
        async def patient(desk: PolicyDesk, told: Any) -> Any:
            desk._limits = replace(desk._limits, longest=desk._limits.longest * LATE)
            return await ask(desk, told)

        return patient

    return patched(PolicyDesk, "_ask", make)


@bug(
    "resource handlers", RUNTIME, systems=(),
    tests="tests/impl/actor/test_calls.py::test_an_action_that_does_not_end_is_given_up_in_time",
)  # fmt: skip
def handler_time_limit_not_kept() -> Planted:
    """A handler that does not end within its limit is waited for."""

    def make(once: Any) -> Any:
        async def patient(calls: HandlerCalls, *given: Any) -> Any:
            calls.retry = replace(calls.retry, longest=calls.retry.longest * LATE)
            return await once(calls, *given)

        return patient

    return patched(HandlerCalls, "_once", make)


@bug(
    "resource handlers", "paper, section 3.4: identifiers of actions are durable", systems=(),
    tests="tests/impl/actor/test_tasks.py::test_a_restarted_task_keeps_its_identifier_and_a_new_entry_gets_another",
)  # fmt: skip
def task_identifier_changes_at_restart() -> Planted:
    """A task that recovery begins again has another identifier than before the crash."""

    def make(action: Any) -> Any:
        def renamed(upcalls: Upcalls, *of: Any) -> Any:
            made = action(upcalls, *of)
            return replace(made, task=f"{made.task}/{made.incarnation}")

        return renamed

    return patched(Upcalls, "action", make)


@bug("communication", RUNTIME, systems=("ring",))
def addressed_to_the_one_before() -> Planted:
    """Returns what is sent to one machine of the own role goes to the one before it."""
    return _addressing(lambda index, count: (index - 1) % count)


@bug("communication", RUNTIME, systems=("register",))
def addressed_to_the_first() -> Planted:
    """Returns what is sent to several machines of a role goes to the first of them each time."""
    return _addressing(lambda index, count: 0)


def _addressing(wrong: Callable[[int, int], int]) -> Planted:
    """A neighbour is taken for another machine of its role, where there are several."""

    def make(neighbour: Any) -> Any:
        def other(program: Program, core: Core, number: int, at: int) -> str:
            role, index = core.neighbour(at)
            return program.roles[role].machine(wrong(number if index < 0 else index, program.roles[role].count))

        return other

    return patched(Program, "neighbour", make)


def _without(metadata: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key != name}


# What is forgotten too early, or never


@bug(
    "sessions", RUNTIME, systems=(),
    tests="tests/impl/actor/test_session.py::test_a_run_is_not_forgotten_before_its_last_message_is_taken",
)  # fmt: skip
def session_forgotten_with_its_run() -> Planted:
    """A run is forgotten though its last messages are not taken yet."""
    return patched(Requests, "_may_forget", lambda may: lambda *given: True)


@bug(
    "communication", RUNTIME, systems=(),
    tests="tests/impl/actor/test_left_in_one_turn.py::"
    "test_what_was_said_is_given_up_also_where_the_last_transition_of_the_turn_leaves_no_state",
)  # fmt: skip
def left_states_said_on() -> Planted:
    """Returns what a state has said is said again also when it was left, for as long as nobody takes it."""
    return patched(Outbox, "keep", lambda keep: lambda *given: None)


@bug(
    "contracts", RUNTIME, systems=(),
    tests="tests/impl/lease/test_settings_change.py::"
    "test_a_lease_stays_at_its_site_when_its_broker_is_to_send_others_elsewhere",
)  # fmt: skip
def renewals_for_another_site() -> Planted:
    """A broker that is set to another site renews the leases of the old one for the new one."""

    def make(credential: Any) -> Any:
        def moved(tickets: TicketCredentials, request: CredentialRequest) -> Any:
            kept = {name: value for name, value in request.metadata.items() if name != AUTHORITY}
            return credential(tickets, request._replace(metadata=kept))

        return moved

    return patched(TicketCredentials, "_credential", make)
