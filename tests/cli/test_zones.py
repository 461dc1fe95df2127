"""Words for a time are read alike in every time zone, or by the zone where they say so."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from leasehold.cli.trust import TrustFault, moment

NOW = datetime(2030, 6, 1, 12, tzinfo=UTC).timestamp()


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The time zone of this process for a while."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("words", "utc"),
    [
        ("2031-01-31", "2031-01-31T00:00"),
        ("2031-07-31", "2031-07-31T00:00"),
        ("2031-01-31T12:30", "2031-01-31T12:30"),
        ("2031-01-31T12:30Z", "2031-01-31T12:30"),
        ("2031-01-31T12:30+05:30", "2031-01-31T07:00"),
        ("2031-01-31T22:30-05:00", "2031-02-01T03:30"),
        ("2030-06-01T12:00:01", "2030-06-01T12:00:01"),
        ("1s", "2030-06-01T12:00:01"),
        ("36h", "2030-06-03T00:00"),
        ("30d", "2030-07-01T12:00"),
    ],
)
def test_the_end_of_a_key_is_in_utc_where_no_zone_is_said(words: str, utc: str, zone: str) -> None:
    assert os.environ["TZ"] == zone
    assert moment(words, "--not-after", NOW) == int(datetime.fromisoformat(f"{utc}+00:00").timestamp())


@pytest.mark.parametrize("words", ["2030-06-01", "2030-06-01T12:00", "2030-06-01T13:59+02:00", "0s"])
def test_what_is_over_is_over_in_every_zone(words: str, zone: str) -> None:
    with pytest.raises(TrustFault, match="not in the future"):
        moment(words, "--not-after", NOW)
