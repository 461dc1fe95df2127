"""What a holder says of a lease from the command line, and what it is told: types, reasons, units by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.impl.lease.fleet import SITE, TENANT, Fleet
from tests.cli.test_running import leasehold, states
from tests.waiting import wait_until

TERMS = ("--until", "10m", "--term", "2m")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder: Path = tmp_path_factory.mktemp("words")
    handler = {"name": "command", "setup": ["sh", "-c", 'echo \'{"properties": {"port": 80}}\'']}
    handler |= {"modify": handler["setup"], "teardown": "true"}
    with Fleet(folder, units=3, tick_seconds=0.25, handler=handler) as made:
        yield made


def active(fleet: Fleet, lease: str) -> bool:
    return states(fleet, lease).get("service_manager") == "active"


@pytest.mark.long
def test_a_holder_learns_which_units_it_has_and_says_which_it_gives_back(fleet: Fleet) -> None:
    said = ("--type", "unit", "--property", "rack=3", "--configuration", "image=web")
    lease = leasehold(fleet, "demand", "--units", "3", *TERMS, *said).strip()
    wait_until(lambda: active(fleet, lease))
    (held,) = fleet.client(TENANT).get("leases", lease)
    told = held["data"]["unit_properties"]
    assert [(one["name"], one["site"], one["port"]) for one in told] == [(f"unit-{n}", SITE, 80) for n in range(3)]
    (site,) = fleet.client(SITE).get("leases", lease)
    assert (site["data"]["type"], site["data"]["configuration"]) == ("unit", {"image": "web"})
    assert "It has 3 units: unit-0, unit-1, unit-2." in leasehold(fleet, "explain", lease)
    no = leasehold(fleet, "extend", lease, "--units", "2", "--victims", "unit-9", code=1)
    assert f"{lease} has no unit 'unit-9'; did you mean unit-" in no
    leasehold(fleet, "extend", lease, "--units", "2", "--victims", "unit-1", "--soon")
    wait_until(lambda: fleet.client(TENANT).get("leases", lease)[0]["data"]["lease_units"] == [0, 2])
    wait_until(lambda: active(fleet, lease))
    assert "It has 2 units: unit-0, unit-2." in leasehold(fleet, "explain", lease)
    leasehold(fleet, "close", lease)
    wait_until(lambda: states(fleet, lease).get("service_manager") == "closed")
    assert "It is over, and will be forgotten: it was closed when it was active" in leasehold(fleet, "explain", lease)


@pytest.mark.long
def test_a_unit_that_is_lost_is_told_and_repaired(fleet: Fleet) -> None:
    lease = leasehold(fleet, "demand", "--units", "1", *TERMS).strip()
    wait_until(lambda: active(fleet, lease))
    (unit,) = fleet.client(TENANT).get("leases", lease)[0]["data"]["lease_units"]
    assert "took it (unit/active#lost)" in leasehold(fleet, "tell", f"unit-{unit}", "lost")
    wait_until(lambda: fleet.client(SITE).get("units")[unit]["data"]["repairs"] == 1)
    wait_until(lambda: active(fleet, lease))
    assert fleet.client(TENANT).get("leases", lease)[0]["data"]["lease_lost"] == []
    leasehold(fleet, "close", lease)
    wait_until(lambda: states(fleet, lease).get("service_manager") == "closed")


@pytest.mark.long
def test_a_lease_that_ended_because_its_site_was_down_says_so(fleet: Fleet) -> None:
    lease = leasehold(fleet, "demand", "--units", "1", "--until", "10m", "--term", "3s").strip()
    wait_until(lambda: active(fleet, lease))
    fleet.kill(SITE)
    wait_until(lambda: fleet.client(TENANT).get("leases", lease)[0]["state"] == "closed")
    said = leasehold(fleet, "explain", lease)
    assert "It is over, and will be forgotten: its time was over when it was extending_lease" in said
    assert "ago; site had not answered extend_lease." in said
    assert "It has 1 unit" not in said
    fleet.kill(TENANT)
    fleet.start(TENANT)
    wait_until(lambda: fleet.about(TENANT) is not None)
    said = leasehold(fleet, "explain", lease)
    assert "It is over, and will be forgotten: its time was over when it was extending_lease" in said
    assert "ago; site had not answered extend_lease." in said  # though its actor has restarted since
    fleet.start(SITE)  # which keeps the lease until its unit is needed
    wait_until(lambda: states(fleet, lease).items() >= {("service_manager", "closed"), ("broker", "closed")})


@pytest.mark.long
def test_who_waits_for_a_policy_says_so(fleet: Fleet) -> None:
    first = leasehold(fleet, "demand", "--units", "3", *TERMS).strip()
    wait_until(lambda: active(fleet, first))
    second = leasehold(fleet, "demand", "--units", "3", *TERMS).strip()
    wait_until(lambda: states(fleet, second).get("broker") == "ticketing")
    said = leasehold(fleet, "explain", second)
    assert f"  It waits for its policy to decide: allocate: it wants 3 of 3 units, {first} has 3 until tick " in said
    assert "  It waits since tick " in said
    for lease in (first, second):
        leasehold(fleet, "close", lease)
        wait_until(lambda: states(fleet, lease).get("service_manager") == "closed")  # noqa: B023


@pytest.mark.long
def test_what_was_refused_is_said_before_it_is_written(fleet: Fleet) -> None:
    lease = leasehold(fleet, "demand", "--units", "1", *TERMS).strip()
    wait_until(lambda: active(fleet, lease))
    for _ in range(2):
        assert "the term is not over" in leasehold(fleet, "tell", lease, "reclaim", code=1)
    refused = r"  It has refused reclaim 2 times, the last time [0-9.]+ s ago: the term is not over\.\n"
    assert re.search(refused, leasehold(fleet, "explain", lease))
    leasehold(fleet, "close", lease)
    wait_until(lambda: states(fleet, lease).get("service_manager") == "closed")


@pytest.mark.long
def test_a_request_that_is_denied_keeps_its_reason(fleet: Fleet) -> None:
    lease = leasehold(fleet, "demand", "--units", "1", *TERMS, "--type", "gold").strip()
    wait_until(lambda: states(fleet, lease).get("service_manager") == "failed")
    said = leasehold(fleet, "explain", lease)
    why = "this broker has units of type unit, and not of gold"
    assert f"  Its broker said of the ticket: {why}.\n" in said
    assert f"  It said: {why}.\n" in said  # the broker
    no = leasehold(fleet, "demand", "--units", "4", *TERMS, code=1)
    assert "units is 4; 3 is the most that can ever be had" in no


@pytest.mark.long
def test_a_term_that_begins_later_is_waited_for(fleet: Fleet) -> None:
    lease = leasehold(fleet, "demand", "--units", "1", *TERMS, "--start", "5m").strip()
    wait_until(lambda: states(fleet, lease).get("service_manager") == "ticketed")
    assert ", in terms of 2 min, from " in leasehold(fleet, "explain", lease)
    other = json.loads(leasehold(fleet, "demand", "--units", "3", "--until", "2m", "--term", "1m", "--json"))["lease"]
    wait_until(lambda: active(fleet, other))  # it ends before that one begins
    for one in (lease, other):
        leasehold(fleet, "close", one)
    wait_until(lambda: states(fleet, other).get("service_manager") == "closed")


@pytest.mark.long
def test_an_operator_keeps_a_unit_back(fleet: Fleet) -> None:
    wait_until(lambda: {row["state"] for row in fleet.client(SITE).get("units")} <= {"idle", "closed"})
    assert "#retire" in leasehold(fleet, "tell", "unit-0", "retire")
    lease = leasehold(fleet, "demand", "--units", "2", *TERMS).strip()
    wait_until(lambda: active(fleet, lease))
    assert fleet.client(TENANT).get("leases", lease)[0]["data"]["lease_units"] == [1, 2]
    assert "#returned" in leasehold(fleet, "tell", "unit-0", "returned")
    leasehold(fleet, "close", lease)
    wait_until(lambda: states(fleet, lease).get("service_manager") == "closed")


def test_victims_are_of_a_smaller_lease(fleet: Fleet) -> None:
    assert "--victims says which units are given back" in leasehold(
        fleet, "extend", "tenant:1", "--until", "9m", "--victims", "unit-1", code=2
    )
