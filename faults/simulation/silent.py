"""Policies, handlers and credentials that decide nothing: whoever runs a simulation answers in their place.

A call of a policy is told to subscribers and stays open; a handler is at work until its machine moves on. So the events
that come from outside of the actors are those that the simulation chooses, and no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from leasehold.impl.actor.environment import CredentialRequest, Environment
from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.policy.policy import Decision, Lease, Question


class SilentPolicy:
    """Decides nothing."""

    quick = True

    def recovered(self, lease: Lease) -> None:
        pass

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        return ()

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        return ()

    def tick(self, now: int) -> Iterable[Decision]:
        return ()


class SilentHandler:
    """Is at work until it is cancelled."""

    async def act(self, action: HandlerAction) -> Done:
        await asyncio.get_running_loop().create_future()
        return Done(False, "it has no end")

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        return None

    async def close(self) -> None:
        pass


class NoCredentials:
    """Messages take no credential along, and every message is believed: in the simulation all actors are honest."""

    names: Collection[str] = ()
    completes: Collection[str] = ()
    kept: Callable[[str], Iterable[Mapping[str, Any]]] = staticmethod(lambda role: ())

    def issue(self, requests: Sequence[CredentialRequest]) -> list[str | Refusal | None]:
        return [None] * len(requests)

    def accept(self, envelope: Envelope, metadata: Mapping[str, Any], now: int) -> dict[str, Any]:
        return {}

    def players(self, kept: Mapping[str, Any]) -> Mapping[str, str]:
        return {}


class AnyVerb(dict[str, SilentHandler]):
    """A silent handler for every verb."""

    def get(self, verb: str, default: Any = None) -> SilentHandler:
        return self.setdefault(verb, SilentHandler())


def silent_environment(roles: Iterable[str], peers: Mapping[str, str]) -> Environment:
    """The environment of an actor that decides nothing.

    Args:
        roles: that the actor plays, with subsidiary ones.
        peers: by machine, the actor that plays it.
    """
    return Environment({role: SilentPolicy() for role in roles}, AnyVerb(), peers, credentials=NoCredentials())
