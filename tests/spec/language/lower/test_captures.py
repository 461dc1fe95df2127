"""Values that a task reads of the step that starts it are kept in the record, if its message may be sent again."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.spec import SpecError
from tests.checker.explore.test_engines import assert_alike
from tests.systems import CONSTRUCTS, TESTS, files_of, load, written


def files(**changed: tuple[str, str]) -> dict[str, str]:
    """The system's files, with a text replaced in some of them."""
    found = files_of("constructs/captures")
    for name, (before, after) in changed.items():
        file = next(f for f in found if f.endswith(f"{name}.yaml"))
        assert before in found[file]
        found[file] = found[file].replace(before, after)
    found.pop("expected.yaml")
    return found


def test_fields_are_set_by_what_starts_the_task_and_set_back_by_what_ends_it() -> None:
    desk = load(CONSTRUCTS / "captures").roles["desk"]
    assert [*desk.data] == ["last", "deliver__sender", "deliver__old_last", "deliver__addressee"]
    (parcel,), (rest,) = desk.states["busy"].on["parcel"], desk.states["busy"].on["rest"]
    assert [u.name for u in parcel.updates] == [*desk.data]
    assert [u.name for u in rest.updates] == [*desk.data][1:]


def test_it_is_what_an_author_would_write(tmp_path: Path) -> None:
    """The same system with fields of its own has as many states."""
    by_hand = files(
        client=("posted}}", "posted, set: {to_whom: event.addressee, how: event.heavy}}}"),
        desk=("set: {last: msg.heavy}", "set: {last: msg.heavy, whom: msg.addressee, who: msg.sender, was: last}"),
    )
    by_hand["roles/client.yaml"] = (
        by_hand["roles/client.yaml"]
        .replace("odd: bool", "odd: bool, to_whom: client, how: bool")
        .replace("event.addressee, heavy: event.heavy}}\n", "to_whom, heavy: how}}\n")
        .replace("with: {addressee: event.addressee, heavy: event.heavy}", "with: {addressee: to_whom, heavy: how}")
    )
    by_hand["roles/desk.yaml"] = (
        by_hand["roles/desk.yaml"]
        .replace("{last: bool}", "{last: bool, whom: client, who: client, was: bool}")
        .replace("{to: free}", "{to: free, set: {whom: 'client[0]', who: 'client[0]', was: false}}")
        .replace("to: msg.addressee", "to: client\n    only: it == whom")
        .replace("by: msg.sender", "by: who")
        .replace("old(last)", "was")
    )
    ours, theirs = explore(load(CONSTRUCTS / "captures")), explore(written(tmp_path, by_hand))
    assert (ours.distinct, ours.generated) == (theirs.distinct, theirs.generated)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"desk": ("to: msg.addressee", "to: msg.adressee")}, "did you mean `addressee`"),
        ({"desk": ("to: msg.addressee", "to: last")}, "client"),
        ({"desk": ("heavy: last", "heavy: event.weight")}, "weight"),
        ({"client": ("heavy: event.heavy", "heavy: msg.sender")}, "sender"),
        ({"client": ("post: {to: posted}", "post: {to: posted}, delivery: {to: posted}")}, ""),
    ],
    ids=["field", "type", "no field", "no sender", "several events"],
)
def test_what_not_all_events_have_is_an_error(changed: dict[str, tuple[str, str]], words: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        written(tmp_path, files(**changed))
    assert words in str(raised.value)
    assert "roles/" in str(raised.value)


ONCE = files_of("spec/language/lower/systems/once")
AS_TASK = (
    "up: {initial: true, on: {ask: {to: up, also: answer}}}",
    "up: {initial: true, tasks: [answer], on: {ask: {to: up}}}",
)


@pytest.mark.parametrize("also", [True, False], ids=["also", "task of a state"])
@pytest.mark.parametrize("kind", ["fifo", "mailbox", "bag", "multiset", "set"])
def test_what_is_never_sent_again_is_not_kept(kind: str, also: bool, tmp_path: Path) -> None:
    """Each client is in one of four states: it has not asked, has asked, is answered, is done."""
    files_ = {name: text.replace("KIND", kind) for name, text in ONCE.items()}
    if not also:
        files_["roles/server.yaml"] = files_["roles/server.yaml"].replace(*AS_TASK)
    system = written(tmp_path, files_)
    kept = not also and kind != "fifo"
    assert [*system.roles["server"].data] == (["answer__sender"] if kept else [])
    assert_alike(system)
    if not kept and kind not in ("set", "mailbox"):  # a set is never consumed, a mailbox says what was heard
        assert explore(system).distinct == 16


def test_a_task_that_a_state_and_also_start_is_kept_of_the_state(tmp_path: Path) -> None:
    files_ = {name: text.replace("KIND", "bag") for name, text in ONCE.items()}
    files_["roles/server.yaml"] = (
        "role: server\nstates:\n"
        "  up:\n    initial: true\n    on:\n      ask:\n"
        "        - {stay: true, when: 'msg.sender == client[0]', also: answer}\n"
        "        - {to: down, when: 'msg.sender != client[0]'}\n"
        "  down: {tasks: [answer], on: {ask: {to: up}}}\n"
        "tasks: {answer: {send: answer, to: msg.sender}}\n"
    )
    system = written(tmp_path, files_)
    first, second = system.roles["server"].states["up"].on["ask"]
    assert ([u.name for u in first.updates], [p.name for p in first.passes]) == ([], ["answer__sender"])
    assert ([u.name for u in second.updates], [p.name for p in second.passes]) == (["answer__sender"], [])
    assert_alike(system)


LEFT = TESTS / "spec/language/lower/systems/left"


def test_a_set_that_was_kept_is_set_back_with_the_state_that_is_left() -> None:
    system = load(LEFT)
    (stop,) = system.roles["hub"].states["busy"].on["stop"]
    assert [u.name for u in stop.updates] == ["tell__some"]


TOGETHER = files_of("spec/language/lower/systems/together")


@pytest.mark.parametrize("kind", ["fifo", "mailbox", "bag", "multiset", "set"])
@pytest.mark.parametrize(("more", "code"), [("", ""), ("set: {n: not n},", "LH410"), ("to: asking", "LH409")])
def test_what_may_not_go_together_is_what_may_be_sent_again(kind: str, more: str, code: str, tmp_path: Path) -> None:
    """An internal transition sends its own messages alone, and through a fifo nothing is sent again."""
    files_ = {name: text.replace("KIND", kind) for name, text in TOGETHER.items()}
    one = files_["roles/one.yaml"].replace("SET", more if code == "LH410" else "")
    files_["roles/one.yaml"] = one.replace("stay: true", more) if code == "LH409" else one
    if code and kind != "fifo":
        with pytest.raises(SpecError, match=code):
            written(tmp_path, files_)
    else:
        assert_alike(written(tmp_path, files_))
