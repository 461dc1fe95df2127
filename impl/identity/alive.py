"""Signs of life: an actor proves at its address that it is there, and that it is the one that is meant.

Theory of operation. `GET /alive/CHALLENGE` is answered with a signature of the actor over its name and the challenge,
which the asker has drawn; so neither an older answer nor another actor at that address can be taken for it. The answer
says that the actor's loop runs, and nothing about its store.
"""

from __future__ import annotations

import secrets
import time

import msgspec
from aiohttp import web

from leasehold.impl.identity.keys import Purpose, base64_of, unbase64
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.identity.trust import Identity, Trust

PLACE = "/alive"
LONGEST, LARGEST = 64, 4096  # letters of a challenge, bytes of an answer


class SignOfLife(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer.

    Attributes:
        name: of the actor.
        key: the fingerprint of its key.
        signature: over its name and the challenge.
    """

    name: str
    key: str
    signature: str


def drawn() -> str:
    """A new challenge."""
    return secrets.token_urlsafe(24)


def route(identity: Identity) -> web.RouteDef:
    """The place at which an actor answers."""

    async def alive(request: web.Request) -> web.Response:
        challenge = request.match_info["challenge"]
        if len(challenge) > LONGEST:
            return web.Response(status=400, text=f"a challenge has {LONGEST} letters at most\n")
        signature = base64_of(identity.key.sign(Purpose.ALIVE, _signed(identity.name, challenge)))
        answer = SignOfLife(identity.name, identity.key.public.fingerprint, signature)
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    return web.get(f"{PLACE}/{{challenge}}", alive)


def refused(name: str, challenge: str, body: bytes, trust: Trust) -> str:
    """Returns why an answer is no sign of life of an actor; empty where it is one."""
    try:
        answer = msgspec.json.decode(body, type=SignOfLife)
        if answer.name != name:
            return f"{answer.name[:60]!r} answers at its address"
        signature, signed = unbase64(answer.signature) or b"", _signed(name, challenge)
        trust.check_signature(name, Purpose.ALIVE, answer.key, signed, signature, time.time())
    except msgspec.DecodeError:
        return "what answers at its address is no actor"
    except Refusal as error:
        return str(error)
    return ""


def _signed(name: str, challenge: str) -> bytes:
    return f"{name}\0{challenge}".encode()
