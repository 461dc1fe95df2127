"""Units that are lost, their properties, the guests on them, and leases that grow, shrink, begin later or wait.

The campaign of the lease loses no unit, and has one unit for its script; tests have what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from leasehold.impl.actor import deciding, outside
from leasehold.impl.actor.kept_values import ValueSender
from leasehold.impl.actor.ready import Observe, Ready
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineInstance, MachineTable
from leasehold.impl.actor.upcalls import Upcalls
from leasehold.impl.core.work import CallWork, Record
from leasehold.impl.handlers import handler
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.identity.signed import Early, Unauthorised
from leasehold.impl.lease import authority, broker, credentials
from leasehold.impl.lease.broker import FirstComeFirstServed, Holding
from leasehold.impl.lease.credentials import TicketCredentials
from leasehold.impl.lease.demand import LeaseDemand
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.policy.policy import Decision, Lease
from leasehold.impl.transport.transport import Reply
from tests.seeded_bugs.bug import Planted, bug, patched, together

OWN = ("name", "site", "fence")  # what is told of a unit whatever its handler says


# Units and their properties


def _told(change: Callable[[dict[str, Any], Mapping[str, Any], HandlerAction], dict[str, Any]]) -> Planted:
    """Others are told something else of a unit; `change` is given that, what the handler says, and its action."""

    def make(properties: Any) -> Any:
        def otherwise(given: Any, action: HandlerAction | None) -> dict[str, Any]:
            found: dict[str, Any] = properties(given, action)
            return found if action is None else change(found, given, action)

        return otherwise

    return patched(handler, "_properties", make)


@bug(
    "resource handlers", systems=(),
    tests="tests/impl/lease/test_what_handlers_are_told.py::"
    "test_handlers_are_told_what_the_records_say_and_a_holder_what_handlers_say[]",
)  # fmt: skip
def handler_says_who_its_unit_is() -> Planted:
    """What a handler says of a unit goes before its name, its site and the fence of the action."""
    return _told(lambda found, given, action: {**found, **given})


@bug(
    "resource handlers", systems=(),
    tests="tests/impl/lease/test_what_handlers_are_told.py::"
    "test_handlers_are_told_what_the_records_say_and_a_holder_what_handlers_say[]",
)  # fmt: skip
def first_properties_stay() -> Planted:
    """What a handler says of a unit that was set up again adds to what was told of it, and replaces nothing."""
    return _told(lambda found, given, action: {**found, **{n: v for n, v in action.told.items() if n not in OWN}})


@bug(
    "resource handlers", systems=(),
    tests="tests/impl/lease/test_what_handlers_are_told.py::"
    "test_handlers_are_told_what_the_records_say_and_a_holder_what_handlers_say[]",
)  # fmt: skip
def properties_by_position() -> Planted:
    """What a holder was told of a unit is looked up by its place among those of the lease, not by its number."""

    def make(told_of: Any) -> Any:
        def packed(upcalls: Upcalls, instance: MachineInstance, above: Mapping[str, Any]) -> Mapping[str, Any]:
            told = above.get(upcalls.environment.properties_in.get(instance.core.role, ""), ())
            known = [one for one in told if isinstance(one, Mapping)]
            return known[instance.number] if instance.number < len(known) else {}

        return packed

    return patched(Upcalls, "_told_of", make)


@bug(
    "resource handlers", systems=(),
    tests="tests/impl/lease/test_what_handlers_are_told.py::"
    "test_handlers_are_told_what_the_records_say_and_a_holder_what_handlers_say[]",
)  # fmt: skip
def handler_sees_the_lease_before() -> Planted:
    """A handler is given the record of the first lease that waits for its unit, not of the one that has it now."""

    def make(action: Any) -> Any:
        def first(upcalls: Upcalls, instance: MachineInstance, *more: Any) -> HandlerAction:
            made: HandlerAction = action(upcalls, instance, *more)
            drivers = upcalls.table.drivers.get(instance.key, []) if instance.core.of_actor else []
            found = next(filter(None, map(upcalls.table.instances.get, drivers)), None)
            return made if found is None else replace(made, lease_data=found.core.view(found.record))

        return first

    return patched(Upcalls, "action", make)


@bug(
    "resource handlers", systems=(),
    tests="tests/impl/lease/test_guests.py::"
    "test_a_guest_joins_anew_after_its_unit_was_set_up_again[1-False]",
)  # fmt: skip
def loss_told_when_it_is_over() -> Planted:
    """While a handler is at work on a unit, the lease that has it does not look at it."""

    def make(set_: Any) -> Any:
        def quiet(stepper: Stepper, ready: Ready, held: MachineInstance, record: Record) -> None:
            before = len(ready.raised)
            set_(stepper, ready, held, record)
            if held.core.subsidiary and any(isinstance(w, CallWork) for w in held.core.work[record[0]](record)):
                del ready.raised[before:]

        return quiet

    return patched(Stepper, "_set", make)


@bug(
    "resource handlers", systems=(),
    tests="tests/impl/actor/test_probes.py::"
    "test_what_a_probe_has_found_waits_in_the_queue_and_counts_there_for_its_state_alone",
)  # fmt: skip
def loss_of_an_older_setup() -> Planted:
    """That a probe has missed a unit counts also where the unit was set up again since it was asked for."""

    def make(observe: Any) -> Any:
        def anyhow(stepper: Stepper, ready: Ready, request: Observe) -> None:
            held = stepper.table.instances.get(request.key)
            observe(stepper, ready, request if held is None else request._replace(epoch=held.state_epoch))

        return anyhow

    return patched(outside, "observe", make)


@bug(
    "policies", systems=(),
    tests="tests/impl/lease/test_authority.py::"
    "test_every_state_of_a_unit_is_free_or_waited_for_or_out_of_reach",
)  # fmt: skip
def kept_units_are_waited_for() -> Planted:
    """A site's policy lets requests wait for units that an operator keeps back."""
    return patched(authority, "_KEPT", lambda kept: ("failed",))


@bug(
    "recovery", systems=(),
    tests="tests/impl/lease/test_kept_units.py::"
    "test_a_restarted_site_takes_for_free_what_it_took_for_free_before",
)  # fmt: skip
def units_of_no_lease_forgotten() -> Planted:
    """After a restart a policy does not hear of units that an operator keeps back and no lease has had."""

    def make(orphans: Any) -> Any:
        def some(table: MachineTable) -> Iterator[tuple[str, str]]:
            return ((lease, machine) for lease, machine in orphans(table) if lease)

        return some

    return patched(MachineTable, "orphans", make)


# Guests


@bug(
    "checkpointing", systems=(),
    tests="tests/impl/actor/test_forgotten.py::"
    "test_nothing_names_a_lease_that_is_forgotten[plain]",
)  # fmt: skip
def guests_left_behind() -> Planted:
    """The records of a lease's guests stay in the store when the lease is forgotten."""
    return patched(MachineTable, "last_with", lambda last_with: lambda table, instance: [])


@bug(
    "policies", systems=(),
    tests="tests/impl/lease/test_service_manager.py::"
    "test_guests_wait_for_the_leases_that_they_are_said_to_wait_for",
)  # fmt: skip
def join_before_a_lease_that_has_not_begun() -> Planted:
    """Guests that wait for another lease join where that one was asked for and has no record yet."""

    def make(joined: Any) -> Any:
        def gone(policy: FixedDemand, lease: str) -> bool:
            return lease not in policy._leases or joined(policy, lease)

        return gone

    return patched(FixedDemand, "_joined", make)


# Terms, sizes and tickets


@bug(
    "policies", systems=(),
    tests="tests/impl/lease/test_broker.py::"
    "test_a_smaller_ticket_counts_as_before_until_the_lease_is_smaller",
)  # fmt: skip
def counted_as_ticketed() -> Planted:
    """A broker promises the units of a smaller ticket to others while the site still holds them."""

    def make(holding_of: Any) -> Any:
        def smaller(lease: Lease) -> Holding | None:
            found: Holding | None = holding_of(lease)
            return None if found is None else replace(found, units=lease.data["units"])

        return smaller

    return patched(broker, "holding_of", make)


@bug(
    "serialization", systems=(),
    tests="tests/impl/lease/test_service_manager.py::"
    "test_nothing_of_a_wish_is_lost_in_a_restart",
)  # fmt: skip
def victims_in_memory_alone() -> Planted:
    """What a client wants of a lease is kept without the units that it gives back."""

    def make(wishes: Any) -> Any:
        def without(policy: FixedDemand, lease: str) -> bytes:
            wish = policy._wishes.get(lease)
            if wish is None:
                return b""
            policy._wishes[lease] = LeaseDemand(
                **{name: getattr(wish, name) for name in wish.__struct_fields__ if name != "victims"}
            )
            try:
                kept: bytes = wishes(policy, lease)
                return kept
            finally:
                policy._wishes[lease] = wish

        return without

    return patched(FixedDemand, "wishes", make)


@bug(
    "policies", systems=(), tests="tests/impl/lease/test_broker.py::test_each_that_waits_is_denied_at_its_own_end",
)  # fmt: skip
def denied_without_a_reason() -> Planted:
    """A request that has waited to its end is denied, and nobody hears why."""

    def make(tick: Any) -> Any:
        def mute(policy: FirstComeFirstServed, now: int) -> list[Decision]:
            said: list[Decision] = list(tick(policy, now))
            return [replace(d, fields={**d.fields, "reason": ""}) if d.event == "denied" else d for d in said]

        return mute

    return patched(FirstComeFirstServed, "tick", make)


@bug(
    "policies", systems=(),
    tests="tests/impl/lease/test_terms.py::test_a_lease_is_renewed_before_the_end_that_was_granted[-2]",
)  # fmt: skip
def renewed_by_what_was_asked_for() -> Planted:
    """A lease is renewed before the end that its holder asked for, though the broker has granted a shorter term."""
    asked: WeakKeyDictionary[FixedDemand, dict[str, int]] = WeakKeyDictionary()

    def end_of(policy: FixedDemand, lease: Lease) -> int:
        granted: int = lease.data["lease_end"]
        return asked.get(policy, {}).get(lease.name, granted)

    def note(policy: FixedDemand, decisions: list[Decision]) -> list[Decision]:
        for d in decisions:
            if d.event in ("demand", "extend"):
                asked.setdefault(policy, {})[d.lease] = d.fields["end"]
        return decisions

    def demands(demand: Any) -> Any:
        return lambda policy, lease, now: note(policy, [demand(policy, lease, now)])[0]

    def renews(renew: Any) -> Any:
        def late(policy: FixedDemand, lease: Lease, wish: LeaseDemand, now: int) -> list[Decision]:
            data = {**lease.data, "lease_end": end_of(policy, lease)}
            return note(policy, renew(policy, replace(lease, data=data), wish, now))

        return late

    def looks(times: Any) -> Any:
        def late(policy: FixedDemand, name: str, now: int) -> Iterator[int]:
            lease, wish = policy._leases.get(name), policy._wishes.get(name)
            for at in times(policy, name, now):
                if lease is not None and wish is not None:
                    before = policy._before_end(wish)
                    at = end_of(policy, lease) - before if at == lease.data["lease_end"] - before else at
                yield at

        return late

    return together(
        patched(FixedDemand, "_demand", demands), patched(FixedDemand, "_renew", renews),
        patched(FixedDemand, "_times", looks),
    )  # fmt: skip


@bug(
    "communication", systems=(),
    tests="tests/impl/attacks/test_attacks.py::"
    "test_what_is_wrong_is_refused_with_the_reason_and_changes_nothing[redeem]",
)  # fmt: skip
def ticket_says_no_start() -> Planted:
    """The broker does not sign when a ticket's term begins, so its holder may say another time."""
    return patched(credentials, "ALSO", lambda also: {name: none for name, none in also.items() if name != "start"})


@bug(
    "communication", systems=(),
    tests="tests/impl/lease/test_early_tickets.py::"
    "test_a_ticket_that_comes_early_is_taken_when_its_term_begins_at_its_site[1]",
)  # fmt: skip
def early_ticket_refused_for_good() -> Planted:
    """A ticket that comes before its term is refused like a forged one, and its holder does not come again."""

    def make(redeem: Any) -> Any:
        def at_once(known: TicketCredentials, *of: Any) -> dict[str, Any]:
            try:
                kept: dict[str, Any] = redeem(known, *of)
                return kept
            except Early as early:
                raise Unauthorised(str(early)) from early

        return at_once

    return patched(TicketCredentials, "_redeem", make)


@bug(
    "communication", systems=(),
    tests="tests/impl/actor/test_kept_values.py::"
    "test_a_receiver_that_has_restarted_asks_again",
)  # fmt: skip
def pages_sent_once() -> Planted:
    """The values of a message are sent to a peer once, also where the peer has restarted and has none any more."""
    sent: WeakKeyDictionary[ValueSender, dict[str, set[bytes]]] = WeakKeyDictionary()

    def make(pages: Any) -> Any:
        async def once(sender: ValueSender, address: str, own: Mapping[bytes, bytes], *more: Any) -> Reply | None:
            before = sent.setdefault(sender, {}).setdefault(address, set())
            new = {name: page for name, page in own.items() if name not in before}
            failed: Reply | None = await pages(sender, address, new, *more)
            if failed is None:
                before.update(new)
            return failed

        return once

    return patched(ValueSender, "_pages", make)


@bug(
    "contracts", systems=(),
    tests="tests/impl/actor/test_contracts.py::"
    "test_a_question_whose_answer_was_refused_is_asked_again_after_pauses_that_double",
)  # fmt: skip
def refused_answer_is_the_last() -> Planted:
    """A policy whose answer was refused is not asked again, and its lease waits for ever."""
    return patched(deciding, "_pending_questions", lambda asked: lambda instance, decision: iter(()))
