"""The data and transitions that no property would miss: those that are listed are never missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.properties import only_these
from leasehold.checker.explore.unread import UnreadDatum, unread
from leasehold.checker.host.mutant_results import kept
from leasehold.checker.mutation.operators import mutations
from leasehold.faults import Budget
from leasehold.spec import SHIPPED, shipped_folder
from tests.systems import TRUTH, load

# A clerk who stamps letters: the colour of the stamp is told to the reader, who notes it; nobody reads the weather.
LETTERS = {
    "system.yaml": (
        "system: letters\nroles: {clerk: {}, reader: {}}\n"
        "channels: {post: {from: clerk, to: reader, kind: mailbox}}\n"
        "environment: {come: {to: clerk}, rain: {to: clerk}}\n"
    ),
    "messages.yaml": (
        "messages:\n  letter: {from: clerk, to: reader, fields: {pages: {type: int, min: 0, max: 3}, red: bool}}\n"
    ),
    "roles/clerk.yaml": """
role: clerk
data: {pages: {type: int, min: 0, max: 3}, red: bool, wet: bool}
events:
  come: {fields: {pages: {type: int, explore: [0, 3]}, red: bool}}
  rain: It rains.
states:
  idle:
    initial: true
    on:
      come: {to: writing, set: {pages: event.pages, red: event.red}}
      rain: {stay: true, set: {wet: not wet}}
  writing: {tasks: [send], on: {rain: {stay: true, set: {wet: not wet}}}, ignore: {come: one is written}}
tasks: {send: {send: letter, to: reader, with: {pages: pages, red: red}}}
""",
    "roles/reader.yaml": """
role: reader
data: {seen: {type: int, min: 0, max: 3}, colour: bool}
states:
  waiting: {initial: true, on: {letter: {to: done, set: {seen: msg.pages, colour: msg.red}}}}
  done: {ignore: {letter: it was read}}
""",
    "invariants.yaml": "properties: {as_written: {when: reader.state == done, always: reader.seen == clerk.pages}}\n",
}


def letters(folder: Path, properties: str = "", more: str = "") -> Path:
    for name, text in LETTERS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if properties or more:
        (folder / "invariants.yaml").write_text((properties or LETTERS["invariants.yaml"]) + more)
    return folder


def test_what_is_carried_to_where_nobody_looks_is_unread(tmp_path: Path) -> None:
    found = unread(load(letters(tmp_path)))
    assert found.data == (
        UnreadDatum("clerk.red", ("letter.red",)), UnreadDatum("clerk.wet"), UnreadDatum("reader.colour"),
    )  # fmt: skip
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


# What mutants add


def test_results_that_are_not_there_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_CACHE", str(tmp_path / "cache"))
    folder = letters(tmp_path / "letters")
    assert kept(folder, load(folder)) is None
