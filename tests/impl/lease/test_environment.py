"""The environment of an actor of the lease, by its roles and the specification's constants, and bounds of demands."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import pytest

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.values import LARGEST
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust
from leasehold.impl.lease import PROPERTIES_IN
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.credentials import TicketCredentials
from leasehold.impl.lease.demand import DemandError, LeaseDemand, LeaseSlice, check_number, property_lists
from leasehold.impl.lease.environment import lease_environment
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.service_manager import FixedDemand
from tests.systems import load

INVENTORY = Inventory.parse({"units": ["a", "b", "c"]})
PLAYER = {"service_manager": "tenant", "broker": "east", "authority": "site"}
IDENTITY = Identity("it", PrivateKey.generate(), Trust())


PROGRAM = compile_system(load("lease"))


def environment(*roles: str, **constants: int | bool) -> Any:
    """The environment of an actor, with these constants of the specification and no others."""
    handlers = {"service_manager": "guests", "authority": "units"}
    program = replace(PROGRAM, constants={"max_units": 2, **constants})
    return lease_environment(program, IDENTITY, roles, PLAYER, INVENTORY, handlers.get)


PARTS: dict[str, tuple[type, dict[str, str], dict[str, str], bool]] = {
    "service_manager": (
        FixedDemand,
        dict.fromkeys(("join", "guest.modify", "leave"), "guests"),
        {"broker": "east", "authority": "site"},
        False,
    ),
    "broker": (FirstComeFirstServed, {}, {"authority": "site"}, True),
    "authority": (FirstFit, dict.fromkeys(("setup", "unit.modify", "teardown"), "units"), {}, True),
}


@pytest.mark.parametrize("roles", [*chain.from_iterable(combinations(PARTS, n) for n in range(4))], ids="+".join)
def test_an_actor_has_what_each_of_its_roles_needs(roles: tuple[str, ...]) -> None:
    made = environment(*roles)
    assert {role: type(policy) for role, policy in made.policies.items()} == {role: PARTS[role][0] for role in roles}
    assert made.handlers == dict(chain.from_iterable(PARTS[role][1].items() for role in roles))
    assert made.peers == dict(chain.from_iterable(PARTS[role][2].items() for role in roles))
    assert made.units is (INVENTORY if any(PARTS[role][3] for role in roles) else None)
    assert made.properties_in == PROPERTIES_IN
    assert isinstance(made.credentials, TicketCredentials)
    assert (made.credentials.identity, made.credentials.peers) == (IDENTITY, made.peers)


def test_policies_of_broker_and_site_are_over_the_inventory() -> None:
    made = environment("broker", "authority")
    assert made.policies["broker"].capacity == 3
    assert made.policies["authority"].free() == {0, 1, 2}


@pytest.mark.parametrize("constants", [{}, {"lazy_close": True}, {"lazy_close": False}], ids=str)
def test_a_site_closes_lazily_unless_the_specification_says_no(constants: dict[str, bool]) -> None:
    assert environment("authority", **constants).policies["authority"]._lazy is constants.get("lazy_close", True)


@pytest.mark.parametrize(
    ("constants", "most", "joins", "leave"),
    [
        ({}, 2, False, 0),
        ({"max_units": 3}, 3, False, 0),
        ({"held_joins": True}, 2, True, 0),
        ({"leave_limit": 2}, 2, False, 2),
        ({"clock_margin": 3}, 2, False, 3),
        ({"leave_limit": 2, "clock_margin": 3}, 2, False, 5),
    ],
)
def test_a_holder_demands_within_the_constants_of_the_specification(
    constants: dict[str, Any], most: int, joins: bool, leave: int
) -> None:
    policy = environment("service_manager", **constants).policies["service_manager"]
    with pytest.raises(DemandError, match=f"units is {most + 1}; {most} is the most"):
        policy.demand("a", most + 1, 50, 5, now=0)
    (said,) = policy.demand("a", most, 50, 5, now=0)
    assert said.fields["end"] == 5 + leave
    if joins:
        assert list(policy.demand("b", 1, 50, 5, now=0, after=["a"]))
    else:
        with pytest.raises(DemandError, match="only where the constant `held_joins` is true"):
            policy.demand("b", 1, 50, 5, now=0, after=["a"])


# Numbers of a demand


@pytest.mark.parametrize("least", [0, 1, -3])
@pytest.mark.parametrize("most", [5, LARGEST])
def test_a_number_is_taken_from_the_least_to_the_most(least: int, most: int) -> None:
    for value in (least, least + 1, most - 1, most):
        check_number("units", value, least, "a unit", most)
    with pytest.raises(DemandError, match=f"^units is {least - 1}; it needs a unit$"):
        check_number("units", least - 1, least, "a unit", most)
    with pytest.raises(DemandError, match=f"^units is {most + 1}; {most} is the most that can ever be had$"):
        check_number("units", most + 1, least, "a unit", most)


@pytest.mark.parametrize("value", [True, False, None, "3", 2.0, [1], "x" * 99])
def test_a_value_that_is_no_number_is_refused_and_shortened(value: Any) -> None:
    with pytest.raises(DemandError) as refused:
        check_number("term", value, 0, "a tick")
    assert str(refused.value) == f"term is {repr(value)[:60]}; it needs a tick"


def test_a_large_number_is_shortened_and_the_most_is_what_every_store_can_hold() -> None:
    check_number("term", LARGEST, 1, "a tick")
    with pytest.raises(DemandError) as refused:
        check_number("term", 10**50, 1, "a tick")
    assert str(refused.value) == f"term is 1{'0' * 29}; {LARGEST} is the most that can ever be had"


def test_each_property_list_of_a_demand_is_its_own_field() -> None:
    wish = LeaseDemand(1, 9, 3, properties={"a": 1}, configuration={"b": 2}, local={"c": 3})
    assert property_lists(wish, LeaseSlice()) == {"properties": {"a": 1}, "configuration": {"b": 2}, "local": {"c": 3}}
