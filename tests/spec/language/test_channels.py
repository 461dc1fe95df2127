"""Channels: what may be sent again is each one's own, and so is the kind, which constants may choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.prove.encode.lemma import lemma_scope, parsed
from leasehold.impl.compiler.program import NotRunnable, check_runnable
from leasehold.spec import SpecError, load
from tests.systems import TRUTH, edited, files_of, write

KINDS = ("mailbox", "fifo")


def served(folder: Path, done: str, noted: str, tasks: str) -> Path:
    """The folder of a system in which a server answers over two channels of some kinds."""
    kinds = ("answers: {from: server, to: client, kind: mailbox", f"answers: {{from: server, to: client, kind: {done}")
    notes = ("kind: fifo, messages: [noted]", f"kind: {noted}, messages: [noted]")
    return write(
        folder / "served", edited(files_of("spec/language/systems/channels"), kinds, notes, ("tell, note", tasks))
    )


@pytest.mark.parametrize("noted", KINDS)
@pytest.mark.parametrize("done", KINDS)
def test_a_state_sends_one_message_over_mailboxes(done: str, noted: str, tmp_path: Path) -> None:
    folder = served(tmp_path, done, noted, "tell, note")
    if (done, noted) == ("mailbox", "mailbox"):
        with pytest.raises(SpecError, match="LH409"):
            load(folder)
        return
    kept = {name for name, datum in load(folder).roles["server"].data.items() if datum.captured}
    assert kept == {f"{task}__sender" for task, kind in (("tell", done), ("note", noted)) if kind == "mailbox"}


SWITCHED = (
    (
        "roles:",
        "types: {transport: {members: [mailbox, fifo]}}\n"
        "constants: {network: {type: transport, value: mailbox}, room: {type: int, value: 3}}\nroles:",
    ),
    ("kind: mailbox", "kind: fifo(room) if room > 1 and network == fifo else network"),
    ("to: server, kind: fifo", "to: server, kind: bag if room == 9 else network"),
)


def switched(folder: Path, *edits: tuple[str, str]) -> Path:
    """The folder of a system whose channels have the kinds that constants say."""
    return write(folder / "switched", edited(files_of("spec/language/systems/channels"), *SWITCHED, *edits))


@pytest.mark.parametrize(
    ("settings", "answers", "room", "asks"),
    [
        ({}, "mailbox", None, "mailbox"),
        ({"network": "fifo"}, "fifo", 3, "fifo"),
        ({"network": "fifo", "room": 1}, "fifo", None, "fifo"),
        ({"network": "fifo", "room": 0}, "fifo", None, "fifo"),  # a capacity that is not taken need not be one
        ({"room": 9}, "mailbox", None, "bag"),
    ],
)
def test_constants_choose_the_kind(
    settings: dict[str, str | int], answers: str, room: int | None, asks: str, tmp_path: Path
) -> None:
    channels = load(switched(tmp_path), settings).channels
    assert [channels["answers"].kind, channels["answers"].capacity, channels["asks"].kind] == [answers, room, asks]
    assert {*channels["answers"].kinds} == {"mailbox", "fifo"}
    assert {*channels["asks"].kinds} == {"mailbox", "fifo", "bag"}


def test_what_chooses_a_kind_is_read(tmp_path: Path) -> None:
    system = load(switched(tmp_path))
    assert not system.warnings
    assert {"network", "room"} <= system.bounding, "a proof is about the kinds that these values give"
    assert "network" in system.loaded_with["machines"]
    assert "network" in load(TRUTH / "abd_register").bounding


def test_a_fifo_without_room_is_refused_where_it_is_taken(tmp_path: Path) -> None:
    folder = switched(tmp_path, ("room > 1 and network", "network"))
    assert load(folder, {"room": 0}).channels["answers"].kind == "mailbox"
    with pytest.raises(SpecError, match="LH307"):
        load(folder, {"room": 0, "network": "fifo"})


WRONG = {
    "LH409": ("kind: fifo, messages: [noted]", "kind: fifo if network == fifo else mailbox, messages: [noted]"),
    "LH308": ("ends:", "last: {always: all(m.latest for m in pending(done))}, ends:"),
    "LH508": ("done: {from: server, to: client, answer: true}", "done: {from: server, to: client}"),
}


@pytest.mark.parametrize("network", ["mailbox", "fifo"])
@pytest.mark.parametrize("code", WRONG)
def test_what_one_kind_forbids_is_wrong_with_any_value(code: str, network: str, tmp_path: Path) -> None:
    folder = switched(tmp_path, WRONG[code])
    with pytest.raises(SpecError, match=code) as refused:
        load(folder, {"network": network})
    assert {d.code for d in refused.value.diagnostics if d.severity == "error"} == {code}


@pytest.mark.parametrize("wrong", ["network == fifo else", "fifo else", "room else", "rooms == 1 else"])
def test_the_condition_is_one_over_constants(wrong: str, tmp_path: Path) -> None:
    folder = switched(tmp_path, ("network == fifo else", wrong))
    if wrong.startswith("network"):
        load(folder)
        return
    with pytest.raises(SpecError, match=r"LH30\d|LH302"):
        load(folder)


def test_a_lemma_has_the_words_that_are_right_with_any_value(tmp_path: Path) -> None:
    text, channels = "all(m.latest for m in pending(ask))", files_of("spec/language/systems/channels")
    mailbox = write(tmp_path / "mailbox", edited(channels, ("server, kind: fifo", "server, kind: mailbox")))
    parsed(text, lemma_scope(load(mailbox)))
    with pytest.raises(SpecError, match="LH308"):
        parsed(text, lemma_scope(load(switched(tmp_path))))


ONE_ANSWER = (
    ("  notes: {from: server, to: client, kind: fifo, messages: [noted]}\n", ""),
    ("  noted: {from: server, to: client, answer: true}\n", ""),
    ("tell, note]", "tell]"),
    (", note: {send: noted, to: msg.sender}", ""),
    (", noted: nothing was asked", ""),
    (", noted: it waits for more", ""),
    (", noted: it is over", ""),
)


def test_compile_looks_at_the_kind_that_a_run_has(tmp_path: Path) -> None:
    one = edited(files_of("spec/language/systems/channels"), *SWITCHED, *ONE_ANSWER)
    folder = write(tmp_path, one)
    for network in ("mailbox", "fifo"):
        check_runnable(load(folder, {"network": network}))
    with pytest.raises(NotRunnable, match="LH801"):
        check_runnable(load(folder, {"room": 9}))
