"""Requests and answers of the control socket: JSON in, JSON out, and errors with a status and words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from leasehold.impl.actor.environment import ActorError
from leasehold.impl.identity.refusal import Refusal


class Rejected(Exception):
    """A client asked for something that cannot be; nothing has changed."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


async def read_body(request: web.Request, needed: dict[str, type], may: dict[str, type]) -> dict[str, Any]:
    """The JSON object of a request, with these keys.

    Raises:
        Rejected: it is none.
    """
    try:
        given = msgspec.json.decode(await request.read() or b"{}")
    except (msgspec.DecodeError, ValueError) as error:
        raise Rejected(400, f"the request is no JSON: {error}") from None
    known = {**needed, **may}
    if not isinstance(given, dict):
        raise Rejected(400, "the request is no JSON object")
    for name, value in given.items():
        if name not in known:
            raise Rejected(400, f"there is no {name[:60]!r} here (there are: {', '.join(known)})")
        if type(value) is not known[name]:
            raise Rejected(400, f"`{name}` is {str(value)[:60]!r}, and not of type {known[name].__name__}")
    for name in needed:
        if name not in given:
            raise Rejected(400, f"`{name}` is missing")
    return given


@web.middleware
async def answered(request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> web.StreamResponse:
    """Plain data as JSON; errors as their status and words."""
    try:
        found = await handler(request)
    except Rejected as error:
        return web.json_response({"error": str(error)}, status=error.status)
    except (ActorError, Refusal, ValueError) as error:
        return web.json_response({"error": str(error)}, status=409)
    except web.HTTPException as error:
        return web.json_response({"error": error.reason}, status=error.status)
    if isinstance(found, web.StreamResponse):
        return found
    return web.Response(body=msgspec.json.encode(found), content_type="application/json")
