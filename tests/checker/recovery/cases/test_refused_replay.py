"""Events that a log has as refused are refused again when it is played: by a contract, a state, a type, or before."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from leasehold.checker.history.chains import read_chain
from leasehold.checker.recovery.campaign import silent
from leasehold.checker.recovery.cases.log_case import LogPlayer, log_case
from leasehold.faults.simulation.embedded import EmbeddedSystem
from leasehold.impl.actor.environment import ActorError, Environment
from leasehold.impl.events.event import RefusedEvent
from leasehold.impl.handlers.handler import Done, HandlerAction, NullHandler
from leasehold.impl.policy.policy import Decision, Lease, Question
from leasehold.spec import load

CUPS = {"type": "int", "min": 0, "max": 4}
FILES = {
    "system.yaml": {
        "system": "shop",
        "roles": {"buyer": {}, "shop": {}},
        "channels": {
            "orders": {"from": "buyer", "to": "shop", "kind": "mailbox"},
            "answers": {"from": "shop", "to": "buyer", "kind": "mailbox"},
        },
        "environment": {"want": {"to": "buyer"}, "agreed": {"to": "shop", "when": "event.cups <= shop.asked"}},
    },
    "messages.yaml": {
        "messages": {
            "order": {"from": "buyer", "to": "shop", "fields": {"cups": CUPS}},
            "sent": {"from": "shop", "to": "buyer", "fields": {"cups": CUPS}, "answer": "true"},
        }
    },
    "roles/buyer.yaml": {
        "role": "buyer",
        "data": {"wanted": CUPS},
        "events": {"want": {"fields": {"cups": CUPS}}},
        "states": {
            "idle": {"initial": "true", "on": {"want": {"to": "waiting", "set": {"wanted": "event.cups"}}}},
            "waiting": {"tasks": ["order"], "on": {"sent": {"to": "served"}}, "refuse": {"want": "it waits"}},
            "served": {"refuse": {"want": "it was served"}},
        },
        "tasks": {"order": {"send": "order", "to": "shop", "with": {"cups": "wanted"}}},
        "ignore": [{"events": "sent", "in": ["idle", "served"], "because": "it is not awaited"}],
    },
    "roles/shop.yaml": {
        "role": "shop",
        "data": {"asked": CUPS, "promised": CUPS},
        "events": {"agreed": {"fields": {"cups": CUPS}}, "packed": {}},
        "states": {
            "open": {"initial": "true", "on": {"order": {"to": "thinking", "set": {"asked": "msg.cups"}}}},
            "thinking": {"tasks": ["think"], "on": {"agreed": {"to": "packing", "set": {"promised": "event.cups"}}}},
            "packing": {"tasks": ["pack"], "on": {"packed": {"to": "sold"}}},
            "sold": {"tasks": ["send"]},
        },
        "tasks": {
            "think": {"call": "policy.think", "answers": ["agreed"]},
            "pack": {"call": "handler.pack", "answers": ["packed"]},
            "send": {"send": "sent", "to": "buyer", "with": {"cups": "promised"}},
        },
        "ignore": [{"events": "order", "in": ["thinking", "packing", "sold"], "because": "it is known"}],
    },
}


class Greedy:
    """Promises too much, then without a number, then more than there can be, and then what was asked for."""

    def recovered(self, lease: Lease) -> None:
        pass

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        return []

    def tick(self, now: int) -> Iterable[Decision]:
        return []

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        asked = question.lease.data["asked"]
        return [
            question.answer("agreed", cups=asked + 1),
            question.answer("agreed"),
            question.answer("agreed", cups=99),
            question.answer("packed"),
            question.answer("agreed", cups=asked),
        ]


class Packer(NullHandler):
    async def act(self, action: HandlerAction) -> Done:
        return Done(True, "packed", answer="packed")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return tmp_path / "shop"


def test_what_was_refused_is_played_and_refused_alike(shop: Path) -> None:
    system = load(str(shop))

    def environment(actor: str) -> Environment:
        return Environment({"shop": Greedy()} if actor == "shop" else {}, {"pack": Packer()})

    with silent():
        running = EmbeddedSystem(str(shop), environment=environment)
        run = running.begin("buyer", "want", cups=2)
        with pytest.raises(ActorError, match="it was served"):
            running.tell("buyer", "want", cups=1)
        assert running.data("shop", run)["promised"] == 2
        running.begin("buyer", "want", cups=1)  # what was refused is written by the next commit
        logs = dict(read_chain(lines, None) for lines in running.logs().values())
        running.stop()
        refused = [event for events in logs.values() for event in events if isinstance(event, RefusedEvent)]
        assert {event.cause for event in refused} == {"policy", "client"}
        assert any("contract" in event.reason for event in refused)
        case = log_case(system, "shop", {}, logs)
        played = LogPlayer(system, case).play()
    assert not played.differs, (played.at, played.why, played.difference)
    assert played.steps == played.same == len(case.steps)
    assert sum("refused" in step for step in case.steps) >= 2
    assert all(step["fields"] for step in case.steps if "refused" in step and step["event"] == "agreed")


def test_a_contract_that_is_new_is_the_first_difference(shop: Path) -> None:
    """The log's actors did not hold the policy to a contract that these do."""
    loose = shop / "system.yaml"
    with silent():
        content = yaml.safe_load(loose.read_text())
        del content["environment"]["agreed"]
        strict_text = loose.read_text()
        loose.write_text(json.dumps(content))
        running = EmbeddedSystem(str(shop), environment=lambda _: Environment({"shop": Greedy()}, {"pack": Packer()}))
        running.begin("buyer", "want", cups=2)
        logs = dict(read_chain(lines, None) for lines in running.logs().values())
        running.stop()
        case = log_case(load(str(shop)), "shop", {}, logs)
        loose.write_text(strict_text)
        played = LogPlayer(load(str(shop)), case).play()
    assert played.at.partition(":")[0] == "shop", (played.at, played.why, played.difference)
    assert "refused" in played.difference, played
    assert "contract" in played.difference["refused"][1]
