"""The meaning of a database's error: failures.yaml has what happened, and the remedy, by the driver's codes.

The driver's own words follow in brackets; an error that the table does not have is told in these words alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from leasehold.impl.files import table
from leasehold.impl.store.store import StoreError, Transient


class DriverError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the table."""

    what: str
    remedy: str = ""
    transient: bool = False
    codes: dict[str, str] = {}
    phrases: dict[str, list[str]] = {}


_FAILURES: Mapping[str, DriverError] = msgspec.convert(table(__package__, "failures.yaml"), dict[str, DriverError])
_BY_CODE = {
    (driver, code): failure
    for failure in _FAILURES.values()
    for driver, codes in failure.codes.items()
    for code in codes.split()
}


def failure_of(driver: str, code: str) -> DriverError | None:
    """The failure of a code: the longest beginning of it that the table has."""
    beginnings = (_BY_CODE.get((driver, code[:end])) for end in range(len(code), 0, -1))
    return next((failure for failure in beginnings if failure is not None), None)


def is_disk_full(driver: str, code: str) -> bool:
    """Returns whether a code says that there is no space."""
    return failure_of(driver, code) is _FAILURES["full"]


def error_of(driver: str, code: str, place: str, message: str) -> StoreError:
    """The error to raise for a driver's code."""
    return _error(failure_of(driver, code) or DriverError("the database failed"), place, message)


def error_named(name: str, place: str, message: str) -> StoreError:
    """The error to raise for a failure by its name in the table."""
    return _error(_FAILURES[name], place, message)


def connection_refused(place: str, message: str) -> StoreError:
    """The error to raise where PostgreSQL lets no connection come to be, for which there are words alone.

    Of the server's refusals (FATAL) those in the table pass; of libpq's, which are mostly of a network, those do not.
    """
    source, otherwise = ("server", "connection_refused") if "FATAL:" in message else ("libpq", "unreachable")
    failures = (f for f in _FAILURES.values() if any(part in message for part in f.phrases.get(source, ())))
    return _error(next(failures, _FAILURES[otherwise]), place, message)


def _error(failure: DriverError, place: str, message: str) -> StoreError:
    """The error, with the driver's own words in brackets, on one line."""
    message = " ".join(message.split())[:300]
    kind = Transient if failure.transient else StoreError
    return kind(f"{place}: {failure.what} ({message})" if message else f"{place}: {failure.what}", failure.remedy)
