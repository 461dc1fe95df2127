"""Policies and handlers of an actor: what they are asked, and what becomes of their answers (paper, section 4.3)."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from leasehold.impl.actor.held import Held, role_of
from leasehold.impl.actor.setting import ActorError
from leasehold.impl.actor.turn import Turn
from leasehold.impl.core.event import local
from leasehold.impl.core.work import Call
from leasehold.impl.handlers.handler import Action, Done
from leasehold.impl.notices import Kind
from leasehold.impl.policy.policy import Decision, Policy, Question, Wishing
from leasehold.impl.store.store import Key

if TYPE_CHECKING:
    from leasehold.impl.actor.actor import Actor
    from leasehold.impl.actor.memory import Memory

log = logging.getLogger("leasehold.extensions")

INVENTORY = "inventory"  # words: the units as records know them
WISH = "wish of "  # words: what a client wants of a lease, as the policy keeps it


class Extensions:
    """Asks policies and handlers."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self._attempt = 0
        self._made = {role: made for role, p in actor.world.policies.items() if (made := _copied(p)) is not None}
        self._wishing: list[Wishing] | None = None
        self._words: dict[str, bytes] = {}  # that are to be kept with the next commit

    def renew(self) -> None:
        """Policies as they were made: what they decided since the last commit was never so (paper, section 4.3.1)."""
        for role, policy in self._made.items():
            self.actor.world.policies[role] = copy.deepcopy(policy)
        self._wishing = None
        self._words = {}

    @property
    def memory(self) -> Memory:
        return self.actor.memory

    def recovered(self) -> None:
        """Tells the policies of every lease that was read from the store, and gives them their wishes back.

        Raises:
            InventoryError: records know a unit by another number than the inventory.
        """
        self._check_inventory()
        for held in self.memory.held.values():
            policy = self.actor.world.policies.get(held.core.role)
            if policy is not None:
                policy.recovered(self.memory.view(*held.key))
        for lease, role in self.memory.orphans():  # their units may be in quarantine
            policy = self.actor.world.policies.get(role)
            if policy is not None:
                policy.recovered(self.memory.view(lease, role))
        for name, body in self.memory.words.items():
            for wishing in self.wishing() if name.startswith(WISH) else ():
                wishing.restore(name.removeprefix(WISH), body)

    def _check_inventory(self) -> None:
        inventory = self.actor.world.inventory
        if inventory is None:
            return
        before, now = self.memory.words.get(INVENTORY, b""), inventory.remembered()
        inventory.check(before)
        if now != before:
            self._words[INVENTORY] = self.memory.words[INVENTORY] = now

    def words(self) -> dict[str, bytes]:
        """What is to be kept with the next commit: the wishes that have changed, and the inventory."""
        found, self._words = self._words, {}
        for policy in self.wishing():
            found |= {WISH + lease: wish for lease, wish in policy.changed_wishes().items()}
        return found

    def tick(self, turn: Turn, now: int) -> None:
        """The clock has come to a time."""
        for policy in self.actor.world.policies.values():
            turn.after.append(partial(self._tick, policy, now))

    def _tick(self, policy: Policy, now: int) -> None:
        self._ask(lambda: policy.tick(now))

    def ask_policy(self, held: Held, piece: Call, entry: int) -> None:
        policy = self.actor.world.policies.get(held.core.role)
        if policy is None or held.entry != entry:
            return
        question = Question(piece.target.partition(".")[2], self.memory.view(*held.key), piece.answers, entry)
        if self.actor.tell_all(self.actor.about(Kind.CALL, held, piece.target)) is None:
            return
        self._ask(lambda: policy.begin(question, self.actor.clock.now()))

    def changed(self, turn: Turn, held: Held) -> None:
        """Tells a policy of a lease that has changed, or one of whose subsidiary machines has."""
        lease, machine = held.key
        if held.core.subsidiary:
            lease, machine = held.papers.get("lease", ""), self.memory.parents[held.core.role]
        policy = self.actor.world.policies.get(machine.partition("[")[0])
        if policy is not None and lease and (key := Key(lease, machine)) not in turn.told:
            turn.told.add(key)
            turn.after.append(partial(self._tell, policy, lease, machine))

    def _tell(self, policy: Policy, lease: str, machine: str) -> None:
        self._ask(lambda: policy.changed(self.memory.view(lease, machine), self.actor.clock.now()))

    def _ask(self, policy: Callable[[], Iterable[Decision]]) -> None:
        """Asks a policy; its own mistakes are its own, and harm no lease but those that it does not decide on."""
        try:
            decisions = list(policy())
        except Exception:
            self.actor.count("policy errors")
            log.exception("%s: a policy failed, and decides nothing now", self.actor.identity.name)
            return
        self.decide(decisions)

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Takes what a policy wants, as events that the core judges."""
        for decision in decisions:
            self.actor.put_quietly(partial(self._decided, decision=decision))

    def wishing(self) -> list[Wishing]:
        if self._wishing is None:
            self._wishing = [policy for policy in self.actor.world.policies.values() if isinstance(policy, Wishing)]
        return self._wishing

    def _decided(self, turn: Turn, decision: Decision) -> None:
        held = self.memory.held.get(Key(decision.lease, decision.machine))
        try:
            if held is None:
                if decision.entry < 0 and decision.lease not in self.memory.pruned:
                    self.actor.begin_now(
                        turn, decision.lease, decision.machine, decision.event, decision.fields, self.actor.world.peers
                    )
                return
            event = self.actor.local(held, decision.event, decision.fields, decision.entry)
        except ActorError as error:
            log.error("the policy of %s answers wrongly: %s", decision.machine, error)
            return
        self.actor.steps.step(turn, held, event)

    def ask_handler(self, held: Held, piece: Call, entry: int) -> None:
        if held.entry != entry or self.actor.tell_all(self.actor.about(Kind.CALL, held, piece.target)) is None:
            return
        self._attempt += 1
        self.actor.calls.begin(held, piece, self._action(held, piece))

    def _action(self, held: Held, piece: Call) -> Action:
        verb = piece.target.partition(".")[2]
        number = (held.entry << 40) + (self.actor.epoch << 16) + self._attempt % (1 << 16)
        own = held.core.view(held.record)
        if not held.core.subsidiary:
            return Action(verb, held.key.lease, "", number, own, answers=piece.answers)
        named = role_of(held.key.machine)
        assert named is not None
        role, index = named
        names, properties = self.actor.world.units.get(role, ()), self.actor.world.unit_properties.get(role, ())
        lease = held.papers.get("lease", "")
        parents = (
            h for k in self.memory.drivers.get(held.key, ()) if k.lease == lease and (h := self.memory.held.get(k))
        )
        parent = next(parents, None)
        return Action(
            verb, lease, names[index] if index < len(names) else held.key.machine, number,
            parent.core.view(parent.record) if parent else {}, own,
            properties[index] if index < len(properties) else {}, piece.answers,
        )  # fmt: skip

    def answered(self, key: Key, event: str, entry: int, done: Done) -> None:
        def take(turn: Turn) -> None:
            held = self.memory.held.get(key)
            if held is not None:
                told = {"event": event, "well": done.well, "words": done.words}
                turn.notices.append(self.actor.about(Kind.ANSWERED, held, event, **told))
                if done.facts and held.entry == entry:
                    held.papers["facts"] = dict(done.facts)
                    turn.change(held)
                self.actor.steps.step(turn, held, local(event, entry=entry))

        self.actor.put_quietly(take)


def _copied(policy: Policy) -> Policy | None:
    """A policy that nothing has happened to; None where it cannot be copied, and the old one has to do."""
    try:
        return copy.deepcopy(policy)
    except Exception as error:
        log.warning(
            "the policy %s cannot be copied (%s), and is kept when the store fails", type(policy).__name__, error
        )
        return None
