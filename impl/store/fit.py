"""What fits a store: the limits of keys and values, the same for every store, so that records can move between them.

Keys are any text that UTF-8 can write, without NUL, which databases take for the end of a text. Their lengths are
bounded by the smallest index among the stores (PostgreSQL, 2704 bytes a row); values by the longest statement that a
MariaDB server takes by default (16 MiB, in which a value is written with two characters a byte).
"""

from __future__ import annotations

from leasehold.impl.store.store import Batch, Unfit

LEASE_BYTES = 1024
NAME_BYTES = 255  # of a machine, an actor, a word
VALUE_BYTES = 6 * 2**20


def check_name(what: str, text: str) -> None:
    """Refuses a name that fits no store.

    Raises:
        Unfit: it is empty, or too long, or no text that UTF-8 can write without NUL.
    """
    if not text:
        raise Unfit(f"{what} is empty", "give it a name")
    _check_text(what, text, NAME_BYTES)


def check_batch(batch: Batch) -> None:
    """Refuses a batch that fits no store.

    Raises:
        Unfit: a key or a value does not fit, or one key is both put and dropped.
    """
    for (lease, machine), body in batch.puts.items():
        _check_text("the lease of a key", lease, LEASE_BYTES)
        _check_text("the machine of a key", machine, NAME_BYTES)
        _check_value("the record of", f"{lease}, {machine}", body)
    for lease, machine in batch.drops:
        _check_text("the lease of a key", lease, LEASE_BYTES)
        _check_text("the machine of a key", machine, NAME_BYTES)
    if batch.drops and (both := batch.puts.keys() & set(batch.drops)):
        lease, machine = min(both)
        raise Unfit(f"the batch both puts and drops the record of {_short(f'{lease}, {machine}')}", "do one of the two")
    for name, body in batch.metadata.items():
        check_name("the name of a word", name)
        _check_value("the word", name, body)


def _check_text(what: str, text: str, limit: int) -> None:
    # Nearly every key is short plain ASCII; that much is tested without encoding it.
    if not isinstance(text, str):
        raise Unfit(f"{what} is no text but {type(text).__name__}", "write it as text")
    if "\0" in text:
        raise Unfit(f"{what} {_short(text)} contains NUL, which no database keeps in a text", "leave it out")
    size = len(text)
    if not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            half = text[error.start]
            raise Unfit(
                f"{what} {_short(text)} contains half a character ({half!r}), which UTF-8 cannot write",
                "decode the text that it came from as UTF-8",
            ) from None
    if size > limit:
        raise Unfit(f"{what} {_short(text)} has {size} bytes, more than {limit}", "choose a shorter one")


def _check_value(what: str, name: str, body: bytes) -> None:
    if type(body) is not bytes:
        raise Unfit(f"{what} {_short(name)} is not bytes but {type(body).__name__}", "encode it first")
    if len(body) > VALUE_BYTES:
        raise Unfit(
            f"{what} {_short(name)} has {len(body)} bytes, more than {VALUE_BYTES}", "keep large data elsewhere"
        )


def _short(text: str) -> str:
    return ascii(text if len(text) <= 40 else f"{text[:37]}...")
