"""Questions of actors about what can be had at others, and the answers, as frames that only their senders can make.

    lhq1.FINGERPRINT.SIGNATURE.BODY
    lha1.FINGERPRINT.SIGNATURE.BODY

Theory of operation. A question has a number by chance, and its answer says the same one. So an answer counts only where
it was asked for, of whom it was asked, and once. Both name sender and receiver, and neither says anything of a lease.
"""

from __future__ import annotations

import time
from typing import Any, Literal, TypeVar

import msgspec

from leasehold.impl.identity import signed
from leasehold.impl.identity.keys import PrivateKey, Purpose
from leasehold.impl.identity.signed import Malformed, NotForMe
from leasehold.impl.identity.trust import Trust


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A question.

    Attributes:
        sender: the actor that asks.
        receiver: the actor that it asks.
        number: by chance, so that no two questions have the same.
        type: of the units that it asks for; empty: of all.
        reply_to: the sender's address, if it gives one.
        version: of this form.
    """

    version: Literal[1]
    sender: signed.Word
    receiver: signed.Word
    number: signed.Word
    type: signed.Text = ""
    reply_to: signed.Address | None = None


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An answer.

    Attributes:
        sender: the actor that was asked.
        receiver: the actor that has asked.
        number: of the question.
        content: `now` of the one that was asked, and `answers`, by role, of its policies; not to be changed.
        error: why there is no content; empty: there is.
        version: of this form.
    """

    version: Literal[1]
    sender: signed.Word
    receiver: signed.Word
    number: signed.Word
    content: dict[str, Any]
    error: signed.Text = ""


class _Period(msgspec.Struct):
    start: signed.Natural = msgspec.field(name="from")
    until: signed.Natural
    units: signed.Natural


class _Entry(msgspec.Struct):
    type: signed.Text
    units: signed.Natural
    free: list[_Period]


class _Said(msgspec.Struct):
    inventory: list[_Entry]


class _Content(msgspec.Struct):
    now: signed.Natural
    answers: dict[signed.Name, _Said]


def check_content(content: dict[str, Any]) -> None:
    """Checks whether an answer says what answers say; it may say more.

    Raises:
        Malformed: it does not.
    """
    try:
        msgspec.convert(content, _Content)
    except msgspec.ValidationError as error:
        raise Malformed(f"the answer is none about what can be had: {error}") from None


_T = TypeVar("_T", Query, QueryAnswer)
_WORDS: signed.Form = tuple((name, signed.word) for name in ("sender", "receiver", "number"))
_QUERY, _ANSWER = ("lhq1", "query"), ("lha1", "answer")
_encoder = msgspec.json.Encoder()
_query_decoder, _answer_decoder = msgspec.json.Decoder(Query), msgspec.json.Decoder(QueryAnswer)
_query_form: signed.Form = (*_WORDS, ("reply_to", signed.word))
_answer_form: signed.Form = (*_WORDS, ("content", signed.data))


def is_query(frame: bytes) -> bool:
    """Returns whether a frame is to be read as a question."""
    return frame.startswith(f"{_QUERY[0]}.".encode())


def is_answer(frame: bytes) -> bool:
    """Returns whether a frame is to be read as an answer."""
    return frame.startswith(f"{_ANSWER[0]}.".encode())


def seal_query(query: Query, key: PrivateKey) -> bytes:
    """Signs a question.

    Raises:
        Malformed, TooLarge: no receiver would take it.
    """
    body = signed.write(query, "the query", _query_decoder, _encoder, _query_form)
    return signed.text_of(*_QUERY, key.public.fingerprint, key.sign(Purpose.QUERY, body), body).encode()


def seal_answer(answer: QueryAnswer, key: PrivateKey) -> bytes:
    """Signs an answer.

    Raises:
        Malformed, TooLarge: no receiver would take it.
    """
    body = signed.write(answer, "the answer", _answer_decoder, _encoder, _answer_form)
    return signed.text_of(*_ANSWER, key.public.fingerprint, key.sign(Purpose.ANSWER, body), body).encode()


def open_query(frame: bytes, trust: Trust, me: str, at: float | None = None) -> Query:
    """The question in a frame, if it is one, and from whom it says it is, and for me.

    Args:
        frame: any bytes.
        trust: whom I trust.
        me: my name.
        at: the calendar time by which keys end, in seconds since 1970; None: now.

    Raises:
        TooLarge, Malformed, UnknownSender, Forged, NotForMe: as of an envelope.
    """
    fingerprint, signature, body = signed.parts_of(*_QUERY, _text(frame))
    query = signed.read(body, _query_decoder, _encoder, _query_form)
    return _judged(query, Purpose.QUERY, fingerprint, signature, body, trust, me, at)


def open_answer(frame: bytes, trust: Trust, me: str, at: float | None = None) -> QueryAnswer:
    """The answer in a frame, likewise."""
    fingerprint, signature, body = signed.parts_of(*_ANSWER, _text(frame))
    answer = signed.read(body, _answer_decoder, _encoder, _answer_form)
    return _judged(answer, Purpose.ANSWER, fingerprint, signature, body, trust, me, at)


def _judged(
    said: _T,
    purpose: Purpose,
    fingerprint: str,
    signature: bytes,
    body: bytes,
    trust: Trust,
    me: str,
    at: float | None,
) -> _T:
    moment = time.time() if at is None else at
    trust.check_signature(said.sender, purpose, fingerprint, body, signature, moment)
    if said.receiver != me:
        raise NotForMe(f"the frame is for {said.receiver[:80]!r}, and this is {me}")
    return said


def _text(frame: bytes) -> str:
    try:
        return frame.decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("the frame is no signed text") from None
