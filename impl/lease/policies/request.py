"""The properties of a request as the policies of brokers read them."""

from __future__ import annotations

from collections.abc import Mapping

from leasehold.impl.core.values import LARGEST
from leasehold.impl.lease.arbiter import Request, number_among

LONGEST_ACCOUNT = 64  # characters


def number_of(request: Request, name: str) -> int | None:
    """A whole number from 0 on; None where the request does not say it."""
    return number_among(request.properties, name)


def unfit_number(request: Request, name: str) -> str:
    """Returns why a property is no such number; empty where it is one, or is not there."""
    value = request.properties.get(name)
    if value is None or number_of(request, name) is not None:
        return ""
    return f"the request property {name} is {value!r:.40}; it has to be a whole number from 0 on"


def account_of(request: Request, users: bool) -> str:
    """The account of a request: its user, where it names one and that counts, or else the holder of the lease."""
    user = request.properties.get("user")
    if users and isinstance(user, str) and user:
        return user[:LONGEST_ACCOUNT]
    return (request.lease.rpartition(":")[0] or request.lease)[:LONGEST_ACCOUNT]


def check_counts(name: str, given: Mapping[str, int]) -> None:
    """Checks a setting whose values are whole numbers from 1 on, by account.

    Raises:
        ValueError: one is not.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} is {given!r:.40}; it has to say a number for each account, as in {{ann: 2}}")
    for account, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
            of = f" of {account!r:.70}" if account else ""
            raise ValueError(f"{name}{of} is {value!r:.40}; it has to be a whole number from 1 on")
