"""What others are told of a unit: a handler may add to it, and not say who the unit is."""

from __future__ import annotations

from leasehold.impl.core.work import CallWork
from leasehold.impl.handlers.handler import Done, HandlerAction, answer_of
from leasehold.spec.language.types import OPAQUE

EVENTS = {"joined": (("properties", OPAQUE),)}
CALL = CallWork("join", "handler.join", ("joined",))


def test_the_name_the_site_and_the_fence_are_the_actors() -> None:
    """A unit that chose its own fence could undo what a newer lease has done."""
    own = {"name": "u-1", "site": "north", "fence": 7}
    action = HandlerAction("setup", "tenant:1", "u-1", 7, {}, actor="north", told={"name": "old", "fence": 99, "a": 1})
    other = {"name": "x", "site": "y", "fence": 8, "address": "here"}
    for done in (Done(True, properties=other), Done(True, fields={"properties": other})):
        assert answer_of(CALL, EVENTS, done, action) == ("joined", ({**own, "address": "here"},))
    assert answer_of(CALL, EVENTS, Done(True), action) == ("joined", ({**own, "a": 1},))
