"""Frames and replies as bytes between processes.

Frames: each one its length, as 4 bytes (the highest first), and itself. Replies: a JSON list, for each frame in its
turn the answer and the reason, `[["taken",""],["refused","..."]]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from leasehold.impl.transport.transport import Delivery, Reply

_LONGEST_REASON = 500
_LONGEST_LACKING = 3000  # digests, of which no character is escaped
LARGEST_REPLY = 4096  # bytes of one reply at most: 500 characters, each escaped
TAKEN = Reply(Delivery.TAKEN)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[tuple[Delivery, str]])


class FrameError(Exception):
    """Bytes of a peer are no frames or no replies: the peer's fault."""


def pack(frames: Iterable[bytes]) -> bytes:
    return b"".join(part for frame in frames for part in (len(frame).to_bytes(4, "big"), frame))


def unpack(body: bytes, most: int) -> list[bytes]:
    """The frames of a body.

    Raises:
        FrameError: it holds none, more than `most`, or is cut off.
    """
    frames: list[bytes] = []
    place = 0
    while place < len(body):
        end = place + 4 + int.from_bytes(body[place : place + 4], "big")
        if place + 4 > len(body) or end > len(body):
            raise FrameError(f"the body is cut off within frame {len(frames) + 1}")
        if len(frames) == most:
            raise FrameError(f"the body holds more than {most} frames")
        frames.append(body[place + 4 : end])
        place = end
    if not frames:
        raise FrameError("the body holds no frame")
    return frames


def pack_replies(replies: Sequence[Reply]) -> bytes:
    return _encoder.encode([(reply.answer, _tidy(reply)) for reply in replies])


def unpack_replies(content: bytes, count: int) -> list[Reply]:
    """The replies to `count` frames.

    Raises:
        FrameError: they are not.
    """
    try:
        rows = _decoder.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"the answer is none: {str(error)[:200]}") from None
    if len(rows) != count:
        raise FrameError(f"the answer has {len(rows)} replies to {count} frames")
    replies = (Reply(answer, reason) for answer, reason in rows)
    return [
        Reply(one.answer, _tidy(one)) if one.reason or one.answer is not Delivery.TAKEN else TAKEN for one in replies
    ]


def _tidy(reply: Reply) -> str:
    """A reason is one line of a log at the other end."""
    reason, longest = reply.reason, _LONGEST_LACKING if reply.answer is Delivery.LACKS else _LONGEST_REASON
    if reason.isprintable() and len(reason) <= longest:
        return reason
    return "".join(c if c.isprintable() else " " for c in reason[:longest])
