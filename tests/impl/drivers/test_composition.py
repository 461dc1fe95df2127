"""Compositions: what is wrong with one is told before anything is begun, and who may say which property."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.drivers import tools
from leasehold.impl.drivers.composed import ComposedHandler
from leasehold.impl.drivers.composition import filled
from leasehold.impl.handlers.handler import Done, HandlerError, Stale
from leasehold.impl.handlers.place import Cancelled
from leasehold.impl.policy import plugins
from tests.impl.drivers.machine import action
from tests.impl.drivers.mine import HERE

NOTE = f"{HERE}:Note"


def note(name: str, **settings: Any) -> dict[str, Any]:
    return {NOTE: {"text": name, **settings}, "as": name}


def made(folder: Path, parts: list[Any], **more: Any) -> ComposedHandler:
    return ComposedHandler(folder / "units", parts, **more)


def do(handler: ComposedHandler, *actions: Any) -> list[Done]:
    return [handler.do(one, threading.Event()) for one in actions]


def board(folder: Path) -> dict[str, str]:
    """The notes on the board, by part."""
    found = (folder / "units" / ".board").glob("*")
    return {file.name.partition("-u-0-")[2]: file.read_text() for file in found}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], "parts: needs a list with one part at least"),
        ("volume", "parts: needs a list"),
        (["volume"], r"parts\[0\]: is 'volume'; a part is one driver"),
        ([{"volum": {}}], "there is no driver 'volum'; did you mean volume"),
        ([{NOTE: {}}], "is no name of a part; write `as: disk`"),
        ([{NOTE: {"text": "a"}, "as": "A"}], "'A' is no name of a part"),
        ([{NOTE: {"texxt": "a"}, "as": "a"}], "has no setting 'texxt'; did you mean text"),
        ([{NOTE: {}, "as": "a"}], "needs the setting 'text'"),
        ([{NOTE: ["a"], "as": "a"}], "needs its settings"),
        ([note("a"), note("a")], r"parts\[1\]: there is another part 'a'"),
        ([{NOTE: {"text": "{b.file}"}, "as": "a"}, note("b")], "text: {b.file} stands for nothing"),
        ([{NOTE: {"text": "{unti}"}, "as": "a"}], "{unti} stands for nothing; did you mean unit"),
        ([{NOTE: {"text": "a {"}, "as": "a"}], "has a single bracket; write {{ or }} for one"),
        ([{f"{HERE}:Bare": {}, "as": "a"}], "lacks settings, changes, facts, programs"),
        ([{f"{HERE}:Gone": {}, "as": "a"}], "has no 'Gone'"),
        ([{str(HERE): {}, "as": "a"}], "it has no name behind it; write that of a class"),
        ([{f"{HERE}:Tool": {"text": "a"}, "as": "a"}], "certainly-not-there is missing"),
    ],
)
def test_what_is_wrong_with_a_part_is_told_with_its_place(tmp_path: Path, parts: Any, words: str) -> None:
    with pytest.raises(HandlerError, match=words):
        made(tmp_path, parts)


@pytest.mark.skipif(os.geteuid() != 0, reason="these drivers need root")
@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"volume": {"size": "lots"}}, r"parts\[0\]: volume: size: 'lots' is no size"),
        ({"volume": {"size": "-5MiB"}}, "size: '-5MiB' is no size"),
        ({"volume": {"size": "5MiB", "filesystem": "zfs"}}, "filesystem: Invalid enum value 'zfs'"),
        ({"volume": {"size": "{disk}", "mounted": "perhaps"}}, "mounted: Expected `bool`, got `str`"),
        ({"cgroup": {"cpus": -1}}, "cpus: -1 is no limit"),
        ({"cgroup": {"cpus": math.nan}}, "cpus: nan is no limit"),
        ({"cgroup": {"memory": "0.5B B"}}, "memory: '0.5B B' is no size"),
        ({"network": {"bridge": "lh0", "subnet": "nonsense"}}, "subnet: 'nonsense' is no network"),
        ({"network": {"bridge": "sixteen-letters-", "subnet": "10.1.0.0/24"}}, "is no name of an interface"),
        ({"network": {"bridge": "lh0", "subnet": "10.1.0.0/24", "address": "x"}}, "address: 'x' is no IPv4 address"),
        ({"network": {"bridge": "lh0", "subnet": "10.1.0.0/24", "bandwidth": "fast"}}, "'fast' is no rate"),
        ({"container": {"image": "nope", "command": ["x"]}}, r"image: there is no image 'nope' \(there are: base\)"),
        ({"container": {"image": "base", "command": []}}, "command: is empty"),
        ({"container": {"image": "base", "command": "init"}}, "command: Expected `array`, got `str`"),
        ({"container": {"image": "base", "command": ["x"], "hostname": "a b"}}, "'a b' is no name of a host"),
        ({"process": {"command": []}}, "command: is empty"),
    ],
)
def test_a_value_that_is_wrong_for_each_unit_is_told_with_its_place(tmp_path: Path, part: Any, words: str) -> None:
    pytest.importorskip("pyroute2")
    images, properties = {"base": {"directory": "/srv"}}, {"disk": {"default": "5MiB"}}
    with pytest.raises(HandlerError, match=words):
        made(tmp_path, [part], images=images, properties=properties)


def test_all_that_is_wrong_with_parts_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(HandlerError, match=r"parts\[0\].*parts\[2\]"):
        made(tmp_path, [{"volum": {}}, note("a"), {NOTE: {}, "as": "b"}])


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"image.id": {"from": "nobody"}}, "properties: image.id: Invalid enum value 'nobody'"),
        ({"image.id": {"form": "holder"}}, "unknown field `form`"),
        ({"unit": {}}, "unit is a name of its own already"),
        ({"a b": {}}, "'a b' is no name"),
        ({"size": {"most": "much"}}, "'much' is no size"),
        ({"size": {"pattern": "["}}, "properties: size: pattern"),
        ({"a.file": {}}, "a.file is a fact of the part a"),
    ],
)
def test_what_is_wrong_with_a_property_is_told(tmp_path: Path, properties: Any, words: str) -> None:
    with pytest.raises(HandlerError, match=words):
        made(tmp_path, [note("a")], properties=properties)


def test_what_is_told_to_holders_has_known_names(tmp_path: Path) -> None:
    with pytest.raises(HandlerError, match=r"tells: host: {a.flie} stands for nothing; did you mean a.file"):
        made(tmp_path, [note("a")], tells={"host": "{a.flie}"})


def test_programs_that_are_missing_are_told_with_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "PATH", str(tmp_path))
    with pytest.raises(HandlerError, match=r"mkfs.xfs is missing; `apt install xfsprogs` brings it; .* install runc`"):
        made(tmp_path, [{f"{HERE}:Tool": {"text": "a"}, "as": "a"}])


def test_names_in_brackets() -> None:
    values = {"a": 1, "b.c": "x", "d": [2]}
    assert filled("{a}", values) == 1
    assert filled("{d}", values) == [2]
    assert filled("{a}-{b.c}", values) == "1-x"
    assert filled("{{a}} }}{{", values) == "{a} }{"
    assert filled({"k": ["{a}", 3, {"l": "{b.c}"}]}, values) == {"k": [1, 3, {"l": "x"}]}


PROPERTIES = {
    "by.holder": {"from": "holder", "default": "h", "among": ["h", "i"]},
    "by.broker": {"from": "broker", "default": "1GiB", "most": "2GB"},
    "by.site": {"default": "s"},
    "needed": {"from": "holder", "pattern": "[a-z]+"},
}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, "h 1GiB s n"),
        ({"configuration": {"by.holder": "i", "by.broker": "9", "by.site": "x"}}, "i 1GiB s n"),
        ({"ticket": {"by.holder": "i", "by.broker": 7, "by.site": "x"}}, "h 7 s n"),
        ({"properties": {"by.holder": "j", "by.broker": "3GB", "by.site": "x"}}, "j 3GB x n"),
        ({"configuration": {"by.holder": "i"}, "properties": {"by.holder": "j"}}, "i 1GiB s n"),
    ],
)
def test_each_property_comes_from_who_may_say_it(tmp_path: Path, said: dict[str, Any], expected: str) -> None:
    """A holder chooses among what the site permits; what the site says of a unit itself is not limited."""
    text = "{by.holder} {by.broker} {by.site} {needed}"
    handler = made(tmp_path, [{NOTE: {"text": text}, "as": "a"}], properties=PROPERTIES, tells={"said": "{a.text}"})
    said = {**said, "configuration": {"needed": "n", **said.get("configuration", {})}}
    assert do(handler, action("setup", 1, **said))[0].properties == {"said": expected}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "the property needed is missing; the holder has to say it"),
        ({"configuration": {"needed": "A"}}, r"permits what matches \[a-z\]\+"),
        ({"configuration": {"needed": 5}}, r"permits what matches"),
        ({"configuration": {"needed": "n", "by.holder": ["i"]}}, "the site permits h, i"),
        ({"configuration": {"needed": "n"}, "ticket": {"by.broker": "2.1GB"}}, "permits 2GB at most"),
        ({"configuration": {"needed": "n"}, "ticket": {"by.broker": "many"}}, "'many' is no size"),
        ({"configuration": {"needed": "n"}, "ticket": {"by.broker": float("nan")}}, "permits 2GB at most"),
    ],
)
def test_what_may_not_be_said_is_refused_before_anything_is_made(
    tmp_path: Path, said: dict[str, Any], words: str
) -> None:
    handler = made(tmp_path, [{NOTE: {"text": "{needed}"}, "as": "a"}], properties=PROPERTIES)
    with pytest.raises(HandlerError, match=words):
        do(handler, action("setup", 1, **said))
    assert board(tmp_path) == {}


def test_parts_are_made_in_order_and_removed_in_reverse_order(tmp_path: Path) -> None:
    points: list[str] = []
    parts = [note("a"), {NOTE: {"text": "{a.text}{index}"}, "as": "b"}]
    handler = made(tmp_path, parts, at=points.append)
    do(handler, action("setup", 1, index=3))
    assert board(tmp_path) == {"a": "a white", "b": "a3 white"}
    assert [p for p in points if "pinned" in p] == ["a pinned", "b pinned"]
    do(handler, action("teardown", 2))
    assert [p for p in points if "gone" in p] == ["b gone", "a gone"]
    assert board(tmp_path) == {}


def test_a_failure_removes_what_the_task_has_made_and_nothing_else(tmp_path: Path) -> None:
    right, wrong = made(tmp_path, [note("a")]), made(tmp_path, [note("a"), note("b"), note("wrong")])
    with pytest.raises(HandlerError, match="nobody writes that"):
        do(wrong, action("setup", 1))
    assert board(tmp_path) == {}
    do(right, action("setup", 2))
    with pytest.raises(HandlerError):
        do(wrong, action("setup", 3, task="repair"))
    assert board(tmp_path) == {"a": "a white"}


def test_a_failure_changes_parts_back_in_reverse_order(tmp_path: Path) -> None:
    do(made(tmp_path, [note("a"), note("b")]), action("setup", 1))
    points: list[str] = []
    red = [note(name, colour="red") for name in ("a", "b")]
    wrong = made(tmp_path, [*red, note("wrong")], at=points.append)
    with pytest.raises(HandlerError, match="nobody writes that"):
        do(wrong, action("modify", 2))
    assert board(tmp_path) == {"a": "a white", "b": "b white"}
    pinned = [point.partition(" ")[0] for point in points if "pinned" in point]
    assert pinned == ["a", "a", "b", "b", "b", "a"], "each is made and changed, and then changed back"


def test_a_failure_to_undo_is_told_and_stays_listed(tmp_path: Path) -> None:
    wrong = made(tmp_path, [note("stuck"), note("wrong")])
    with pytest.raises(HandlerError, match="nobody writes that; and stuck is left: it sticks"):
        do(wrong, action("setup", 1))
    assert board(tmp_path) == {"stuck": "stuck white"}
    assert wrong._left("u-0").startswith("note lh-")
    with pytest.raises(HandlerError, match="stuck is left"):
        do(wrong, action("teardown", 2))


def test_settings_that_are_fixed_stay_until_the_lease_is_over(tmp_path: Path) -> None:
    do(made(tmp_path, [note("a", lines=2)]), action("setup", 1))
    changed = made(tmp_path, [{NOTE: {"text": "b", "colour": "red", "lines": 3}, "as": "a"}])
    do(changed, action("modify", 2))
    assert board(tmp_path) == {"a": "a red" * 2}
    do(changed, action("setup", 3))
    assert board(tmp_path) == {"a": "a red" * 2}
    do(changed, action("setup", 4, "tenant:2"))
    assert board(tmp_path) == {"a": "b red" * 3}


def test_a_change_that_fails_is_changed_back_in_the_parts_before(tmp_path: Path) -> None:
    properties = {"a.hue": {"from": "holder", "default": "white"}, "b.hue": {"from": "holder", "default": "white"}}
    handler = made(tmp_path, [note("a", colour="{a.hue}"), note("b", colour="{b.hue}")], properties=properties)
    do(handler, action("setup", 1))
    with pytest.raises(HandlerError, match="there is no such colour"):
        do(handler, action("modify", 2, configuration={"a.hue": "red", "b.hue": "none"}))
    assert board(tmp_path) == {"a": "a white", "b": "b white"}
    assert handler._is_up("u-0")


def test_a_part_that_is_gone_from_the_composition_is_removed_with_the_unit_or_by_the_next_setup(tmp_path: Path) -> None:
    both, one = made(tmp_path, [note("a"), note("b")]), made(tmp_path, [note("b")])
    do(both, action("setup", 1))
    do(one, action("setup", 2))
    assert board(tmp_path) == {"b": "b white"}
    do(both, action("setup", 3))
    do(one, action("teardown", 4))
    assert board(tmp_path) == {}


def test_what_is_kept_is_said_at_the_end_of_a_lease_alone(tmp_path: Path) -> None:
    handler = made(tmp_path, [note("kept")])
    do(handler, action("setup", 1))
    assert do(handler, action("teardown", 2))[0].words == "nothing is left of it; snapshot of kept"
    for point in ("kept noted", "kept pinned"):
        stop = threading.Event()
        stopped = made(
            tmp_path, [note("kept")], at=lambda p, point=point, stop=stop: stop.set() if p == point else None
        )
        with pytest.raises(Cancelled):
            stopped.do(action("setup", 3, "tenant:2"), stop)
        done = do(handler, action("teardown", 3, "tenant:2"))[0]
        assert done.words == "nothing is left of it", "of a unit that was never up nothing is kept"


def test_actions_that_are_older_or_unknown_are_refused(tmp_path: Path) -> None:
    handler = made(tmp_path, [note("a")])
    do(handler, action("setup", 3))
    with pytest.raises(Stale):
        do(handler, action("teardown", 2))
    with pytest.raises(HandlerError, match="composed units know setup, modify, teardown, not 'join'"):
        do(handler, action("join", 4))
    with pytest.raises(HandlerError, match="cannot be the name of a directory"):
        do(handler, action("setup", 4, unit="../u"))
    assert board(tmp_path) == {"a": "a white"}


def test_it_is_up_while_all_parts_are_and_says_what_is_left(tmp_path: Path) -> None:
    handler = made(tmp_path, [note("a"), note("b")])
    assert (handler._is_up("u-0"), handler._left("u-0"), handler._facts("u-0")) == (False, "", None)
    do(handler, action("setup", 1))
    assert handler._is_up("u-0")
    facts = handler._facts("u-0")
    assert facts is not None
    assert (facts["lease"], facts["whole"], sorted(facts["parts"])) == ("tenant:1", True, ["a", "b"])
    next((tmp_path / "units/.board").glob("*-b")).unlink()
    assert not handler._is_up("u-0")
    assert handler._left("u-0").count("note") == 2


def test_it_is_a_handler_by_name(tmp_path: Path) -> None:
    handler = plugins.make("handler", "composed", {"directory": str(tmp_path / "units"), "parts": [note("a")]})
    assert isinstance(handler, ComposedHandler)
    with pytest.raises(HandlerError, match="snapshots: Object contains unknown field `qouta`"):
        made(tmp_path, [note("a")], snapshots={"qouta": 1})


def test_a_driver_s_points_are_where_an_action_may_be_cancelled(tmp_path: Path) -> None:
    stop = threading.Event()
    handler = made(tmp_path, [note("a")], at=lambda point: stop.set() if point == "a noted" else None)
    with pytest.raises(Cancelled):
        handler.do(action("setup", 1), stop)
    assert board(tmp_path) == {}
    assert handler._left("u-0").startswith("note")
    assert not handler._is_up("u-0")
    do(handler, action("teardown", 2))
    assert handler._left("u-0") == ""
