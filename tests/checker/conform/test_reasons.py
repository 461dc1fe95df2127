"""Reasons of findings: each alteration of a log is found at its event, as its kind of finding, in its words."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice

import pytest

from leasehold.checker.conform.findings import Nonconformity
from leasehold.checker.conform.known import KnownSystem
from leasehold.impl.events.event import AnyEvent, StepEvent
from tests.checker.conform.alterations import ALTERATIONS, altered
from tests.checker.conform.walks import Log, judged, known, walked

# Of small systems, which together have messages of every kind, policies, handlers and both kinds of subsidiaries.
NAMES = ("two_phase_commit", "tests/impl/actor/lodge", "tests/checker/conform/depot", "examples/mutex",
         "tests/constructs/maps")  # fmt: skip
PLACES = 3  # at which each log is altered in one way

NO_FIELD = r"field `\w+`|there is no field '\w+'"
NO_EVENT = rf"has no event|there is no message|(receives|sends) no \w+ (from|to) |{NO_FIELD}"
TAKES = r"takes .*; the specification has "
OTHER_STATE = r"takes \w+ in \w+, and its last event has left it in \w+"
DIFFERS = r" in \w+( of \S+)? (it \w+ |the state epoch is |`since \w+` is ).*, and the log has "
NUMBER = r"has as last number (from|to) \S+ \d+ at .*; the specification has \d+"
CALLS = rf"calls .*; the specification has |{DIFFERS}"
# By alteration: what the finding is called, and a pattern of its reason. Those of which too little is left for another
# step to be judged are in other tests.
FOUND = {
    "another_state": ("step", r"becomes \{state: \w+\} at .*; the specification has \{state: \w+\}"),
    "another_value": ("step", rf"becomes \{{.*\}} at .*; the specification has \{{|{NO_FIELD}"),
    "a_value_is_missing": ("step", r"^\S+: field `\w+` is missing$"),
    "a_later_state_epoch": ("step", r"the state epoch is \d+, and the log has \d+$"),
    "an_earlier_state_epoch": ("step", r"the state epoch is \d+, and the log has \d+$"),
    "a_sent_number_is_higher": ("step", NUMBER), "a_sent_number_is_missing": ("step", NUMBER),
    "a_received_number_is_higher": ("step", NUMBER), "a_received_number_is_missing": ("step", NUMBER),
    "a_task_began_at_another_epoch": ("step", r"`since \w+` is \d+, and the log has \d+$"),
    "another_source": ("record", OTHER_STATE), "another_event": ("step", rf"{TAKES}|{NO_EVENT}|cannot come from "),
    "another_message": ("step", rf"{TAKES}|{NO_EVENT}"),
    "a_field_is_missing": ("step", r"^\w+: field `\w+` is missing$"),
    "a_field_too_many": ("step", r"^\w+: there is no field 'more'; it has "),
    "another_cause": ("step", rf"{TAKES}nothing|comes from '\w+' and not from a \w+$|cannot come from \w+ in "),
    "an_answer_of_no_call": ("step", r" of \w+ ends a call, which only policies and handlers do$"),
    "from_another_machine": ("step", rf"{TAKES}|{NO_EVENT}"),
    "from_another_actor": ("message", r"is played by somebody, and was by \w+|from somebody, and \S+ has sent it$"),
    "a_number_that_was_not_sent": ("step", NUMBER),
    "a_number_that_came_before": ("step", r"takes \w+ with a number that it has received before$"),
    "a_message_of_nobody": ("step", r"^\w+ has no event '\w+'$"),
    "a_local_event_as_a_message": ("step", r"^there is no message '\w+'$"),
    "another_transition": ("step", TAKES),
    "no_transition": ("step", r"takes nothing at .*; the specification has \w+/"),
    "another_reason": ("step", r"the reason is '.*', and the log has '.*'$"),
    "a_reason_is_missing": ("step", r"the reason is '.+', and the log has ''$"),
    "a_message_is_not_sent": ("step", r"sends .* at .*; the specification has \w+ "),
    "a_message_is_sent_twice": ("step", r"sends .* at .*; the specification has \w+ "),
    "sent_with_another_number": ("step", r"it sends .*, and the log has "),
    "sent_with_another_field": ("step", rf"sends .*; the specification has |it sends .*, and the log has |{NO_FIELD}"),
    "sent_as_another_message": ("step", rf"sends .*; the specification has |{NO_EVENT}"),
    "sent_to_another_machine": ("step", rf"sends .*; the specification has |{NO_EVENT}"),
    "a_call_is_not_begun": ("step", CALLS), "a_call_is_begun_twice": ("step", CALLS), "another_call": ("step", CALLS),
    "another_target": ("step", r"it calls .*, and the log has (.*, )?policy\.dance"),
    "it_serves_another_lease": ("step", r"serves somebody:\d+, and was driven last by \S+$"),
    "what_it_drives_serves_another_lease": ("step", r"serves somebody:\d+, and \S+ drives it$"),
    "of_a_machine_that_is_none": ("step", r"^the system \w+ has no machine 'nobody'$"),
    "of_another_specification": ("log", r"^it was written under another specification or version of it: "),
    "of_an_incarnation_that_has_not_begun": ("log", r"^incarnation \d+ has not begun: the last was \d+$"),
    "of_an_earlier_incarnation": ("log", r"^its incarnation is \d+, and that before it was \d+$"),
    "of_an_earlier_time": ("clock", r"^the time goes back from tick \d+ to \d+ in one incarnation$"),
    "of_a_later_time_than_the_rest_of_its_commit": ("clock", r"^it is of tick \d+, and the event before it in one "),
    "of_an_earlier_commit": ("log", r"^it is of commit \d+, and the event before it of \d+$"),
    "an_incarnation_is_missing": ("log", r"has not begun|no event says that its incarnation has begun"),
    "other_constants": ("log", r"^its actor has other constants than the system that it is judged by"),
    "commits_without_events": ("log", r"^\d+ commits before it have no events$"),
    "constants_that_are_not_those_agreed": ("log", r"^the constants that it tells of are not those of its agreement$"),
    "another_record_recovers": ("record", r"comes back with another record than its last event has left$"),
}  # fmt: skip


@cache
def logs() -> tuple[tuple[str, KnownSystem, Log], ...]:
    return tuple((name, known(name), walked(name, seed)) for name in NAMES for seed in range(2))


def places(alteration: str) -> Iterator[tuple[KnownSystem, Log, str, int]]:
    """Yields logs with an alteration, and the actor and the index of the altered event."""
    for name, of, log in logs():
        every = [(actor, at) for actor, events in log.items() for at in range(len(events))]
        random.Random(f"{alteration} {name}").shuffle(every)
        made = ((altered(alteration, of, log, actor, at), actor, at) for actor, at in every)
        changed = ((other, actor, at) for other, actor, at in made if other is not None and other != log)
        for other, actor, at in islice(changed, PLACES):
            yield of, other, actor, at


def machines_of(event: AnyEvent) -> set[tuple[str, str]]:
    """The leases and machines that a finding at an event may name."""
    if not isinstance(event, StepEvent):
        return {("", "")}
    step = event.step
    return {(one.serves or step.serves or one.lease, one.machine) for one in step.walk()}


@pytest.mark.parametrize("alteration", FOUND)
def test_a_finding_says_what_is_wrong_and_where(alteration: str) -> None:
    """Its event is the altered one, its machine one of that event; the core is said to differ where it was asked."""
    what, words = FOUND[alteration]
    told, tried = 0, 0
    for of, other, actor, at in places(alteration):
        tried += 1
        findings, _ = judged(of, other)
        here = [one for one in findings if (one.actor, one.position) == (actor, at + 1)]
        right = [one for one in here if one.what == what and re.search(words, one.reason)]
        told += bool(right)
        for one in right:
            event = other[actor][at]
            if isinstance(event, StepEvent) and what in ("step", "record", "message"):
                assert (one.lease, one.machine) in machines_of(event), one
            if what == "step" and ("; the specification has " in one.reason or ", and the log has " in one.reason):
                assert one.compiled is (alteration != "another_cause"), "no core knows where an event comes from"
            assert_shown(one)
    assert told == tried > 1


def assert_shown(one: Nonconformity) -> None:
    """A finding as text names its event, its machine and lease where it has both, and two values that differ."""
    whose = f" ({one.machine} of {one.lease})" if one.lease and one.machine else ""
    wanted, of, has = one.reason.partition(", and the log has ")
    assert not of or not wanted.endswith(f" {has}"), "two that are alike do not differ"
    assert str(one) == f"event {one.position} of {one.actor}{whose}: {one.reason}"


def test_each_alteration_has_its_words_or_is_of_several_events() -> None:
    """Those that are left out are found by what follows, so that no one reason is theirs."""
    assert ALTERATIONS.keys() - FOUND.keys() == {
        "a_step_comes_twice", "a_step_is_missing", "a_subsidiary_machine_becomes_another",
        "a_subsidiary_machine_is_driven_twice", "a_subsidiary_machine_is_not_driven", "a_unit_is_forgotten",
        "an_answer_to_another_epoch", "an_answer_to_nothing", "an_incarnation_comes_twice", "forgotten_and_begun_again",
        "forgotten_before_its_end", "found_in_a_record_that_no_step_has_left", "more_machines_recover",
        "of_another_lease", "another_field_of_a_message", "refused_what_is_taken_next",
    }  # fmt: skip
