"""Handlers by the type and attributes of units: the first rule counts, and what set a unit up tears it down."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.handlers.by_type import ByTypeHandler
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, Stale
from leasehold.impl.policy import plugins

pytestmark = pytest.mark.real_time


def saying(word: str, said: Path, fails: str = "") -> dict[str, Any]:
    """A handler whose commands write down what they are called for."""
    line = f"echo {word} $LEASEHOLD_VERB $LEASEHOLD_LEASE $LEASEHOLD_TYPE >>{said}; test $LEASEHOLD_VERB != '{fails}'"
    verbs = ("setup", "modify", "teardown", "join", "leave")
    probe = ["sh", "-c", f"echo {word} probe >>{said}"]
    return {"name": "command", **{verb: ["sh", "-c", line] for verb in verbs}, "probe": probe}


def act(handler: ByTypeHandler, *actions: HandlerAction) -> list[Done]:
    async def run() -> list[Done]:
        return [await handler.act(one) for one in actions]

    return asyncio.run(run())


def action(
    verb: str, number: int, type: str = "", lease: str = "tenant:1", unit: str = "u-0", **more: Any
) -> HandlerAction:
    return HandlerAction(verb, lease, unit, number, more.pop("data", {}), type=type, **more)


def test_the_first_rule_that_fits_type_and_attributes_counts(tmp_path: Path) -> None:
    """Paper, section 4.3.2."""
    said = tmp_path / "said"
    rules = [
        {"type": "server", "where": {"rack": "a", "gpu": 2}, "handler": saying("big", said)},
        {"type": "server", "handler": saying("small", said)},
        {"where": {"rack": "b"}, "handler": saying("rack", said)},
    ]
    handler = ByTypeHandler(tmp_path / "choices", rules)
    act(
        handler,
        action("setup", 1, "server", unit="u-1", properties={"rack": "a", "gpu": 2, "more": 1}),
        action("setup", 1, "server", unit="u-2", properties={"rack": "a"}),
        action("setup", 1, "disk", unit="u-3", properties={"rack": "b"}),
        action("setup", 1, unit="u-4", data={"type": "server"}),
    )
    words = [line.split()[0] for line in said.read_text().splitlines()]
    assert words == ["big", "small", "rack", "small"]
    with pytest.raises(HandlerError, match=r"no rule of `types` is for u-5, of type 'disk' .*any type where"):
        act(handler, action("setup", 1, "disk", unit="u-5"))


def test_a_unit_is_torn_down_by_the_handler_that_has_set_it_up(tmp_path: Path) -> None:
    said = tmp_path / "said"
    before = ByTypeHandler(
        tmp_path / "choices",
        [{"type": "a", "handler": saying("first", said)}, {"type": "b", "handler": saying("second", said)}],
    )
    act(before, action("setup", 1, "a"), action("modify", 2, "b"), action("setup", 3, "b"), action("teardown", 4, "b"))
    assert said.read_text().split("\n")[:-1] == [
        "first setup tenant:1 a",
        "first modify tenant:1 b",
        "first setup tenant:1 b",
        "first teardown tenant:1 b",
    ]
    said.unlink()
    act(before, action("setup", 5, "b"))
    assert said.read_text().startswith("second setup")


def test_a_unit_of_another_lease_is_torn_down_by_the_handler_of_before_first(tmp_path: Path) -> None:
    said = tmp_path / "said"
    rules = [{"type": "a", "handler": saying("first", said)}, {"type": "b", "handler": saying("second", said)}]
    handler = ByTypeHandler(tmp_path / "choices", rules)
    act(handler, action("setup", 1, "a"), action("setup", 2, "b", "other:1"), action("leave", 3, "b", "other:1"))
    assert said.read_text().split("\n")[:-1] == [
        "first setup tenant:1 a",
        "first teardown tenant:1 b",
        "second setup other:1 b",
        "second leave other:1 b",
    ]


def test_a_teardown_that_fails_keeps_the_choice(tmp_path: Path) -> None:
    said = tmp_path / "said"
    rules = [
        {"type": "a", "handler": saying("first", said, fails="teardown")},
        {"type": "b", "handler": saying("second", said)},
    ]
    handler = ByTypeHandler(tmp_path / "choices", rules)
    done = act(handler, action("setup", 1, "a"), action("teardown", 2, "a"), action("setup", 3, "b", "other:1"))
    assert [one.well for one in done] == [True, False, False]
    assert "second" not in said.read_text()
    asyncio.run(handler.is_up("u-0"))
    assert said.read_text().endswith("first probe\n")


def test_a_rule_that_is_gone_is_asked_back(tmp_path: Path) -> None:
    said = tmp_path / "said"
    act(ByTypeHandler(tmp_path / "choices", [{"type": "a", "handler": saying("x", said)}]), action("setup", 1, "a"))
    other = ByTypeHandler(tmp_path / "choices", [{"type": "b", "handler": saying("y", said)}])
    for verb in ("teardown", "modify"):
        with pytest.raises(HandlerError, match=r"u-0 was set up by the rule 'a by command', .* put it back"):
            act(other, action(verb, 2, "b"))


def test_an_older_action_reaches_no_handler(tmp_path: Path) -> None:
    said = tmp_path / "said"
    handler = ByTypeHandler(tmp_path / "choices", [{"handler": saying("x", said)}])
    act(handler, action("setup", 2))
    with pytest.raises(Stale, match="action 1 on u-0 is older than action 2"):
        act(handler, action("teardown", 1))
    act(handler, action("teardown", 3))
    with pytest.raises(Stale):
        act(handler, action("setup", 2))
    assert len(said.read_text().splitlines()) == 2


def test_units_that_no_handler_was_chosen_for_are_unknown(tmp_path: Path) -> None:
    handler = ByTypeHandler(tmp_path / "choices", [{"handler": saying("x", tmp_path / "said")}])

    async def run() -> None:
        assert await handler.is_up("u-0") is None
        assert await handler.left_of("u-0") == ""
        assert await handler.probe("u-0") is None
        await handler.act(action("setup", 1))
        assert await handler.is_up("u-0") is True
        assert await handler.left_of("u-0") == "it is up, by its probe"
        await handler.close()

    asyncio.run(run())


def test_a_handler_s_own_line_is_that_of_the_narrowest(tmp_path: Path) -> None:
    process = {"name": "process", "directory": str(tmp_path / "p"), "parallel": 3}
    assert ByTypeHandler(tmp_path / "c", [{"handler": process}, {"type": "b", "handler": None}]).parallel == 3
    assert not hasattr(ByTypeHandler(tmp_path / "c", [{"handler": None}]), "parallel")


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ([], "types: needs a list of rules"),
        ({"a": 1}, "types: needs a list of rules"),
        (["a"], r"types\[0\]: needs `handler`"),
        ([{"type": "a"}], r"types\[0\]: needs `handler`"),
        ([{"typ": "a", "handler": None}], r"types\[0\]: there is no key 'typ'; did you mean type"),
        ([{"type": 1, "handler": None}], "`type` is a name"),
        ([{"where": "rack", "handler": None}], "`where` a mapping"),
        ([{"handler": {"directory": "x"}}], "`handler` needs a name"),
        ([{"handler": "proces"}], r"types\[0\]: there is no handler 'proces'; did you mean process"),
        ([{"handler": {"name": "process"}}], r"types\[0\]: .* missing a required argument: 'directory'"),
        ([{"handler": None}, {"handler": None}], "two rules are for any type by null"),
        ("gone.yaml", "types: gone.yaml: cannot be read"),
    ],
)
def test_what_is_wrong_with_a_rule_is_told_with_its_place(tmp_path: Path, types: Any, words: str) -> None:
    with pytest.raises(HandlerError, match=words):
        ByTypeHandler(tmp_path / "choices", types)


def test_rules_may_stand_in_a_file(tmp_path: Path) -> None:
    file, said = tmp_path / "types.yaml", tmp_path / "said"
    file.write_text(json.dumps({"types": [{"type": "a", "handler": saying("x", said)}]}))
    handler = plugins.make("handler", "by_type", {"directory": str(tmp_path / "c"), "types": str(file)})
    act(handler, action("setup", 1, "a"))
    assert said.read_text() == "x setup tenant:1 a\n"
