"""The data and transitions that no property would miss: those that are listed are never missed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.properties import only_these
from leasehold.checker.explore.unread import Influence, UnreadDatum, unread
from leasehold.checker.host.mutant_results import kept
from leasehold.checker.mutation.operators import mutations
from leasehold.faults.model import Budget
from leasehold.spec import SHIPPED, System, shipped_folder
from leasehold.spec.language.model import Fair
from tests.systems import TRUTH, edited, files_of, load, write, written

LETTERS = files_of("checker/explore/systems/letters")


def letters(folder: Path, properties: str = "", more: str = "") -> Path:
    write(folder, LETTERS)
    if properties or more:
        (folder / "invariants.yaml").write_text((properties or LETTERS["invariants.yaml"]) + more)
    return folder


@pytest.mark.parametrize(("kind", "stands"), [("fifo", False), ("queue", True)])
def test_what_stands_before_a_message_may_be_in_its_way(kind: str, stands: bool, tmp_path: Path) -> None:
    files = edited(files_of("truth/readers_writers"), ("kind: queue", f"kind: {kind}"))
    assert ("write" in Influence(written(tmp_path, files)).of["read"]) == stands


def test_what_is_carried_to_where_nobody_looks_is_unread(tmp_path: Path) -> None:
    found = unread(load(letters(tmp_path)))
    assert found.data == (
        UnreadDatum("clerk.red", ("letter.red",)),
        UnreadDatum("clerk.wet"),
        UnreadDatum("reader.colour"),
    )
    assert found.fields == (UnreadDatum("letter.red"),)
    assert found.transitions == ("clerk/idle#rain", "clerk/writing#rain")


@pytest.mark.parametrize(
    ("properties", "read"),
    [
        ("properties: {red: {always: not reader.colour or clerk.red}}\n", {"clerk.red", "reader.colour", "letter.red"}),
        ("properties: {red: {always: all(not m.red for m in pending(letter))}}\n", {"clerk.red", "letter.red"}),
        ("properties: {dry: {when: not clerk.wet, leads_to: clerk.wet}}\n", {"clerk.wet"}),
        ("properties: {dry: {when: took(clerk.rain), step: clerk.state == old(clerk.state)}}\n", set()),
    ],
)
def test_what_a_property_reads_is_not_listed(properties: str, read: set[str], tmp_path: Path) -> None:
    found = unread(load(letters(tmp_path, properties)))
    unread_names = {d.name for d in (*found.data, *found.fields)}
    assert unread_names.isdisjoint(read)
    assert read | unread_names >= {"clerk.red", "clerk.wet", "reader.colour", "letter.red"}
    asked = "took(" in properties or "clerk.wet" in properties
    assert (found.transitions == ()) == asked


def test_a_step_that_may_be_the_last_one_is_missed(tmp_path: Path) -> None:
    assert unread(load(letters(tmp_path, more="ends: {read: reader.state == done}\n"))).transitions == ()


def test_the_shipped_systems() -> None:
    for name in ("two_phase_commit", "three_phase_commit", shipped_folder("starter")):
        found = unread(load(name))
        assert (found.data, found.fields, found.transitions) == ((), (), ())
    lease = {d.name: d.told_in for d in unread(load("lease")).data}
    assert lease["authority.local"] == ()
    assert "redeem.configuration" in lease["service_manager.configuration"]


# A second opinion: mutants that change nothing but what is listed violate nothing.


@pytest.mark.parametrize(
    ("name", "settings", "budget"),
    [
        pytest.param("lease", {"max_units": 1, "last_end": 1}, None, marks=pytest.mark.long),
        ("lease", {"max_units": 1, "last_end": 1, "expiry": False, "close_early": False}, "crash=1"),
        ("contention", {"last_end": 1, "lazy_close": False}, None),
    ],
)
def test_no_property_finds_a_mutant_of_what_is_unread(name: str, settings: dict[str, int], budget: str | None) -> None:
    system = load(name, settings)
    holding = [p.name for p in explore(system).properties if p.verdict != "violated"]
    listed = {d.name for d in unread(system).data}
    updates = [m for m in mutations(system) if m.rule in ("drop_update", "change_update")]
    some = [m for m in updates if f"{m.subject.partition('/')[0]}.{m.item.partition(':')[0]}" in listed]
    assert len(some) > 10
    for mutation in some[:: len(some) // 3]:
        mutant = only_these(mutation.applied(system), holding)
        found = explore(mutant, Limits(states=30_000), budget=Budget.parse(budget) if budget else None)
        assert [p.name for p in found.properties if p.verdict == "violated"] == [], mutation.name


def test_letters_without_rain_are_as_good(tmp_path: Path) -> None:
    system = load(letters(tmp_path))
    before = {p.name: p.verdict for p in explore(system).properties}
    idle = unread(system).transitions
    some = [m for m in mutations(system) if m.subject in idle and m.rule in ("ignore_event", "drop_update")]
    assert len(some) == 4
    for mutation in some:
        after = {p.name: p.verdict for p in explore(mutation.applied(system)).properties}
        assert after == before, mutation.name


def test_every_system_is_analysed() -> None:
    folders: list[str | Path] = [f for f in TRUTH.iterdir() if (f / "system.yaml").exists()]
    for name in [*folders, *SHIPPED]:
        system = load(name)
        of = {f"{h.name}.{d}" for h in system.holders.values() for d in h.data}
        assert {d.name for d in unread(system).data} <= of


# Each place where something may be read

PLACES = files_of("checker/explore/systems/places")
NEUTRAL = {
    "orders": "fifo(1)",
    "come": "true",
    "constraint": "true",
    "initially": "true",
    "secret": "",
    "guard": "event.much > 0",
    "aim": "0",
    "cell": "true",
    "note": "aim: 0",
    "timer": "true",
    "halt": "true",
    "send_when": "true",
    "send_only": "true",
    "size": "0",
    "call_when": "true",
    "drive_when": "true",
    "drive_only": "true",
    "load": "0",
    "answer": "true",
    "claims": 'told: {always: "true"}',
    "more": "",
}
BOSS, HAND = 'told: {always: "boss.state != over"}', 'told: {always: "all(h.state == fresh for h in hand)"}'
PEER = 'told: {always: "all(p.state == free for p in peer)"}'


def places(folder: Path, **parts: str) -> System:
    """The system with other parts; `?` in one stands for a question about the secret."""
    texts = dict(PLACES)
    for name, text in {**NEUTRAL, **parts}.items():
        quoted = text if name in ("secret", "claims", "more", "note", "answer", "orders", "timer") else f"'{text}'"
        texts = {n: t.replace(f"@{name}", quoted.replace("?", "secret == 0")) for n, t in texts.items()}
    return written(folder, texts)


READ_IN = {
    "a claim": {"claims": 'told: {always: "boss.secret == 0"}'},
    "a claim about steps": {"claims": 'told: {step: "old(boss.secret) == 0"}'},
    "an antecedent": {"claims": 'told: {when: "boss.secret == 1", always: "true"}'},
    "what is possible": {"claims": 'told: {always_possible: "boss.secret == 0"}'},
    "an end": {"more": "ends: {first: boss.aim == 1, second: boss.secret == 0}\n"},
    "the constraint": {"constraint": "boss.secret == 0"},
    "the first states": {"initially": "boss.secret == 0"},
    "an explored range": {"secret": ", explore: [0, 2]"},
    "a guard": {"guard": "?", "claims": BOSS},
    "a guard of what a message tells": {"guard": "?", "claims": PEER},
    "a value": {"aim": "secret", "claims": 'told: {always: "boss.aim == 0"}'},
    "a value of a cell": {"cell": "?", "claims": 'told: {always: "boss.cells[slot[0]]"}'},
    "the place of a cell": {
        "note": '"cells[slot[0] if ? else slot[1]]": true',
        "claims": 'told: {always: "boss.cells[slot[0]]"}',
    },
    "a value after a message": {"note": "aim: secret", "claims": 'told: {always: "boss.aim == 0"}'},
    "whether something is sent": {"send_when": "?", "claims": PEER},
    "to whom something is sent": {"send_only": "? or it != peer[0]", "claims": PEER},
    "a message": {"size": "secret", "claims": 'told: {always: "all(m.size == 0 for m in pending(order))"}'},
    "what a message brings": {"size": "secret", "claims": 'told: {always: "all(p.got == 0 for p in peer)"}'},
    "whether an answer follows": {"send_when": "?", "claims": 'told: {always: "len(pending(answer)) == 0"}'},
    "whether a channel is full": {"send_when": "?", "claims": 'told: {always: "len(pending(orders)) == 0"}'},
    "whether all was heard": {"send_when": "?", "claims": 'told: {always: "heard(orders)"}'},
    "which number a message has": {
        "orders": "mailbox",
        "halt": "?",
        "claims": 'told: {always: "all(m.number > 0 for m in pending(order))"}',
    },
    "which message is the latest": {
        "orders": "mailbox",
        "halt": "?",
        "claims": 'told: {always: "all(m.latest for m in pending(order))"}',
    },
    "whether somebody is asked": {"call_when": "?", "claims": BOSS},
    "whether hands are driven": {"drive_when": "?", "claims": HAND},
    "which hands are driven": {"drive_only": "? or it != hand[0]", "claims": HAND},
    "what hands are given": {"load": "secret", "claims": 'told: {always: "all(h.held == 0 for h in hand)"}'},
    "whether hands are done": {"answer": "?", "claims": BOSS},
    "a contract of the environment": {"come": "boss.?", "guard": "aim == 0", "claims": BOSS},
    "when a field comes": {"come": "boss.?", "aim": "event.much", "claims": 'told: {always: "boss.aim == 0"}'},
    "a timer": {"timer": "?", "claims": 'told: {always: "now <= 1"}'},
    "what is taken": {"guard": "?", "claims": 'told: {step: "not took(boss.come)"}'},
    "what is accepted": {"guard": "?", "claims": 'told: {always: "accepts(boss.come)"}'},
}


@pytest.mark.parametrize("place", READ_IN)
def test_what_is_read_in_one_place_alone_is_read(place: str, tmp_path: Path) -> None:
    """And where nothing of the kind is read, nobody reads the secret."""
    parts = READ_IN[place]
    assert "boss.secret" not in {d.name for d in unread(places(tmp_path / "read", **parts)).data}
    without = {name: text for name, text in parts.items() if "?" not in text and "secret" not in text}
    kept = {name: text for name, text in without.items() if name != "secret"}
    assert "boss.secret" in {d.name for d in unread(places(tmp_path / "unread", **kept)).data}


def test_a_channel_that_may_be_full_makes_its_sender_wait(tmp_path: Path) -> None:
    """So what fills it is read where the sender's state is; a mailbox is never full."""
    texts = {"claims": BOSS, "call_when": "false", "answer": "false"}
    for kind, waits in (("fifo(1)", True), ("mailbox", False)):
        influence = Influence(places(tmp_path / kind[:4], orders=kind, **texts))
        assert ("order" in influence.of["boss.state"]) == waits


def test_values_for_each_of_which_an_event_is_fair_are_read(tmp_path: Path) -> None:
    plain = places(tmp_path)
    fair = replace(plain.environment["come"], fair=Fair.WEAK, fair_for_each=("much",))
    each = replace(plain, environment={**plain.environment, "come": fair})
    assert {"boss#come.much"} == Influence(each).read() - Influence(plain).read()


def test_what_a_refinement_maps_is_read() -> None:
    """A refinement maps everything, and the claims besides it need not read it."""
    system = load(TRUTH / "two_phase_refines")
    asked = replace(system, properties={}, ends=None, constraint=None, initially=None)
    assert "resource_manager.state" in Influence(asked).read()
    assert Influence(replace(asked, refines=None)).read() == set()


# What mutants add


def test_results_that_are_not_there_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_CACHE", str(tmp_path / "cache"))
    folder = letters(tmp_path / "letters")
    assert kept(folder, load(folder)) is None
