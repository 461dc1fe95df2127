"""What a task reads of the step that starts it is kept in the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.spec import SpecError, load
from tests.checker.explore.by_chance import written

FOLDER = Path(__file__).parents[2] / "constructs" / "captures"


def files(**changed: tuple[str, str]) -> dict[str, str]:
    """The system's files, with a text replaced in some of them."""
    found = {str(path.relative_to(FOLDER)): path.read_text() for path in FOLDER.rglob("*.yaml")}
    for name, (before, after) in changed.items():
        file = next(f for f in found if f.endswith(f"{name}.yaml"))
        assert before in found[file]
        found[file] = found[file].replace(before, after)
    found.pop("expected.yaml")
    return found


def test_fields_are_set_by_what_starts_the_task_and_set_back_by_what_ends_it() -> None:
    desk = load(FOLDER).roles["desk"]
    assert [*desk.data] == ["last", "deliver__sender", "deliver__old_last", "deliver__receiver"]
    (parcel,), (rest,) = desk.states["busy"].on["parcel"], desk.states["busy"].on["rest"]
    assert [u.name for u in parcel.updates] == [*desk.data]
    assert [u.name for u in rest.updates] == [*desk.data][1:]


def test_it_is_what_an_author_would_write(tmp_path: Path) -> None:
    """The same system with fields of its own has as many states."""
    by_hand = files(
        client=("posted}}", "posted, set: {to_whom: event.receiver, how: event.heavy}}}"),
        desk=("set: {last: msg.heavy}", "set: {last: msg.heavy, whom: msg.receiver, who: msg.sender, was: last}"),
    )
    by_hand["roles/client.yaml"] = (
        by_hand["roles/client.yaml"].replace("odd: bool", "odd: bool, to_whom: client, how: bool")
        .replace("event.receiver, heavy: event.heavy}}\n", "to_whom, heavy: how}}\n")
        .replace("with: {receiver: event.receiver, heavy: event.heavy}", "with: {receiver: to_whom, heavy: how}")
    )  # fmt: skip
    by_hand["roles/desk.yaml"] = (
        by_hand["roles/desk.yaml"].replace("{last: bool}", "{last: bool, whom: client, who: client, was: bool}")
        .replace("{to: free}", "{to: free, set: {whom: 'client[0]', who: 'client[0]', was: false}}")
        .replace("to: msg.receiver", "to: client\n    only: it == whom").replace("by: msg.sender", "by: who")
        .replace("old(last)", "was")
    )  # fmt: skip
    ours, theirs = explore(load(FOLDER)), explore(written(tmp_path, by_hand))
    assert (ours.distinct, ours.generated) == (theirs.distinct, theirs.generated)


@pytest.mark.parametrize(("changed", "words"), [
    ({"desk": ("to: msg.receiver", "to: msg.reciever")}, "did you mean `receiver`"),
    ({"desk": ("to: msg.receiver", "to: last")}, "client"),
    ({"desk": ("heavy: last", "heavy: event.weight")}, "weight"),
    ({"client": ("heavy: event.heavy", "heavy: msg.sender")}, "sender"),
    ({"client": ("post: {to: posted}", "post: {to: posted}, delivery: {to: posted}")}, ""),
], ids=["field", "type", "no field", "no sender", "several events"])  # fmt: skip
def test_what_not_all_events_have_is_an_error(changed: dict[str, tuple[str, str]], words: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        written(tmp_path, files(**changed))
    assert words in str(raised.value)
    assert "roles/" in str(raised.value)
