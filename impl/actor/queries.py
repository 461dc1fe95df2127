"""Questions of peers about what can be had here, and those that this actor asks of its peers.

Theory of operation. A question (impl/identity/query.py) comes as a frame of the transport, as messages do, from an
actor that is trusted; nobody else is answered. The policies answer it as they answer the control socket, in a turn that
only reads, so no record changes, and all that is said is durable. The answer goes back as a frame of its own. Nothing
is sent again: who hears nothing asks anew.

A peer that asks too often is told to wait, and so are all where they ask too much together. A question counts once: one
that was heard before is not answered, so whoever plays it again uses up nobody's questions.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from leasehold.impl.actor.environment import ActorContext, ActorError
from leasehold.impl.identity.query import (
    Query,
    QueryAnswer,
    check_content,
    is_query,
    open_answer,
    open_query,
    seal_answer,
    seal_query,
)
from leasehold.impl.identity.signed import Refusal, TooLarge
from leasehold.impl.identity.trust import TrustFault
from leasehold.impl.policy.policy import AnswersQueries, is_quick
from leasehold.impl.transport.limits import TokenBucket
from leasehold.impl.transport.transport import Delivery, Reply, Transport

log = logging.getLogger("leasehold.queries")

QUERIES_PER_SECOND, QUERIES_AT_ONCE = 5.0, 20.0  # of one peer, and of the clients of a control socket
_ALL_PER_SECOND, _ALL_AT_ONCE = 50.0, 200.0  # of all peers
_ANSWER_SECONDS = 10.0
_HEARD = 10_000  # numbers of questions that are known
_OPEN = 100  # questions of this actor that wait for their answers


class PeerQueries:
    """Answers the questions of peers, and asks them.

    Args:
        context: of the actor.
        read: takes a view of the actor in a turn.
        address_of: where a peer is reached.
    """

    def __init__(
        self, context: ActorContext, read: Callable[[Callable[[], Any]], Any], address_of: Callable[[str], str]
    ) -> None:
        self._context, self._read, self._address_of = context, read, address_of
        self._transport: Transport | None = None
        self._own_address = ""
        self._buckets: dict[str, TokenBucket] = {}
        self._heard: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._asked: dict[str, tuple[str, asyncio.Future[dict[str, Any]]]] = {}  # by number: of whom
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, transport: Transport, address: str) -> None:
        """Begins to answer and to ask."""
        self._transport, self._own_address = transport, address

    async def close(self) -> None:
        """Asks and answers nothing any more."""
        self._transport = None
        for _, answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ActorError("the actor has ended"))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def said(self, type: str = "") -> dict[str, Any]:
        """The answers of the policies to who would like to know what can be had, by role; to be read in a turn."""
        context = self._context
        now, policies = context.clock.now(), context.environment.policies.items()
        answers = {role: p.query(now) for role, p in policies if is_quick(p) and isinstance(p, AnswersQueries)}
        for said in answers.values() if type else ():
            said["inventory"] = [entry for entry in said["inventory"] if entry["type"] == type]
        return {"name": context.identity.name, "now": now, "answers": answers}

    # Asking

    async def ask(self, peer: str, type: str = "") -> dict[str, Any]:
        """Asks a peer what can be had of it, and returns what it says.

        Raises:
            ActorError: it is not trusted, cannot be reached, does not answer, or says why not.
        """
        identity = self._context.identity
        try:
            identity.trust.find(peer)
        except TrustFault as fault:
            raise ActorError(str(fault)) from None
        address = self._address_of(peer)
        if self._transport is None or not address:
            raise ActorError(f"it is not known where {peer} is reached; the trust set may say it")
        if len(self._asked) >= _OPEN:
            raise ActorError(f"{len(self._asked)} questions wait for their answers already")
        number = secrets.token_urlsafe(16)
        query = Query(
            version=1,
            sender=identity.name,
            receiver=peer,
            number=number,
            type=type,
            reply_to=self._own_address or None,
        )
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = peer, answer
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                reply = await self._transport.send(address, seal_query(query, identity.key))
                if reply.answer is not Delivery.TAKEN:
                    raise ActorError(f"{peer} does not answer: {reply.reason or reply.answer.value}")
                return await answer
        except TimeoutError:
            raise ActorError(f"{peer} has not answered within {_ANSWER_SECONDS:g} seconds") from None
        finally:
            del self._asked[number]
            if answer.done() and not answer.cancelled():
                answer.exception()  # it may have come after all, and nobody awaits it

    # Answering

    def take(self, frame: bytes) -> Reply:
        """A question of a peer, or the answer to one of this actor's.

        Raises:
            Refusal: it is refused, and why.
        """
        identity = self._context.identity
        if not is_query(frame):
            said = open_answer(frame, identity.trust, identity.name)
            peer, answer = self._asked.get(said.number, ("", None))
            if answer is None or peer != said.sender or answer.done():
                return Reply(Delivery.REFUSED, f"{said.sender} was not asked this", said.sender)
            if not said.error:
                check_content(said.content)
                answer.set_result(said.content | {"name": peer})
            else:
                answer.set_exception(ActorError(f"{peer}: {said.error}"))
            return Reply(Delivery.TAKEN, proven=said.sender)
        query = open_query(frame, identity.trust, identity.name)
        key = query.sender, query.number
        if key in self._heard:
            return Reply(Delivery.TAKEN, proven=query.sender)
        if not self._admits(query.sender):
            reason = f"{identity.name} answers {QUERIES_PER_SECOND:g} queries a second; ask later"
            return Reply(Delivery.BUSY, reason, query.sender)
        self._heard[key] = None
        if len(self._heard) > _HEARD:
            self._heard.popitem(last=False)
        task = asyncio.get_running_loop().create_task(self._answer(query))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return Reply(Delivery.TAKEN, proven=query.sender)

    def _admits(self, peer: str) -> bool:
        now = asyncio.get_running_loop().time()
        own = self._buckets.setdefault(peer, TokenBucket(QUERIES_PER_SECOND, QUERIES_AT_ONCE, now))
        everyone = self._buckets.setdefault("", TokenBucket(_ALL_PER_SECOND, _ALL_AT_ONCE, now))
        return own.take(now) and everyone.take(now)

    async def _answer(self, query: Query) -> None:
        identity, address = self._context.identity, query.reply_to or self._address_of(query.sender)
        if not address:
            return
        try:
            said = await self._read(lambda: self.said(query.type))
            frame = self._sealed(query, said)
        except (ActorError, Refusal) as error:
            log.warning("%s cannot answer %s: %s", identity.name, query.sender, error)
            return
        if self._transport is not None:
            await self._transport.send(address, frame)

    def _sealed(self, query: Query, said: dict[str, Any]) -> bytes:
        """The answer as a frame; where it is too large, that it is."""
        identity = self._context.identity
        answer = QueryAnswer(version=1, sender=identity.name, receiver=query.sender, number=query.number, content=said)
        try:
            return seal_answer(answer, identity.key)
        except TooLarge:
            error = "the answer is too large; ask for one type of units"
            return seal_answer(replace(answer, content={}, error=error), identity.key)
