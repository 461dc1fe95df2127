"""Streams of requests: by chance, of the Standard Workload Format, and of tables."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from leasehold.checker.policies.stream import Generator, Stream, StreamError, TimedRequest, read_stream


def read(tmp_path: Path, text: str, name: str = "requests.csv", patience: int | None = None) -> Stream:
    file = tmp_path / name
    file.write_text(text)
    return read_stream(file, 60, 4, patience)


def test_one_seed_makes_one_stream() -> None:
    first = Generator.parse("rate=2,units=5,ticks=3,requests=300,users=4", 7).stream()
    assert first == Generator.parse("seed=7, rate=2,units=5,ticks=3,requests=300,users=4", 1).stream()
    assert first != Generator.parse("rate=2,units=5,ticks=3,requests=300,users=4", 8).stream()
    requests = first.requests
    assert len(requests) == 300
    assert requests[-1].at / 300 == pytest.approx(1 / 2, rel=0.2)
    assert {request.units for request in requests} == set(range(1, 6))
    assert {(request.user, request.weight) for request in requests} == {(f"user-{n}", n) for n in range(1, 5)}
    assert all(a.at <= b.at for a, b in itertools.pairwise(requests))
    assert all(1 <= r.at < r.until_start < r.until == r.until_start + r.ticks for r in requests)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rat=2", "--generate: 'rat=2' is no setting of a stream; did you mean rate? (there are: rate,"),
        ("rate", "--generate: 'rate' is no setting of a stream"),
        ("rate=0", "--generate: rate is '0'; it needs a number from 0.001"),
        ("rate=nan", "--generate: rate is 'nan'"),
        ("units=1.5", "--generate: units is '1.5'; it needs a number from 1"),
        ("seed=-1", "--generate: seed is '-1'; it needs a number from 0"),
        ("requests=1e3", "--generate: requests is '1e3'"),
    ],
)
def test_a_setting_of_a_stream_that_is_wrong_is_told(text: str, message: str) -> None:
    with pytest.raises(StreamError) as error:
        Generator.parse(text, 0)
    assert str(error.value).startswith(message)


JOBS = """; Version: 2.2
; MaxProcs: 64
;
  1  600  5 130  8 -1 -1  9 600 -1 1 12 3 -1 2 -1 -1 -1
  2  660 -1  60  4 -1 -1 -1  -1 -1 1 13 3 -1 0 -1 -1 -1

  3  720 -1  -1 -1 -1 -1  4  60 -1 0 13 3 -1 1 -1 -1 -1
  4  630 -1   1 -1 -1 -1  4  60 -1 1 -1 -1 -1 1 -1 -1 -1
"""


def test_jobs_become_requests(tmp_path: Path) -> None:
    """Nine processors are three units of four, 130 seconds three ticks; the third job did not run."""
    stream = read(tmp_path, JOBS, "jobs.swf")
    assert stream.requests == (
        TimedRequest(1, 1, 3, 3, 13, "user-12", 1, 2),
        TimedRequest(3, 1, 1, 1, 5, "user--1", 1, 1),
        TimedRequest(2, 2, 1, 1, 6, "user-13", 1, 1),
    )
    assert (stream.units, stream.left_out) == (16, 1)
    assert [request.until_start for request in read(tmp_path, JOBS, "jobs.swf", 2).requests] == [3, 3, 4]


def test_a_table_has_what_it_names_and_the_rest_is_usual(tmp_path: Path) -> None:
    stream = read(tmp_path, "ticks, at,units,user,bid,until_start\n5,3,2,ann,0,9\n# late\n4,1,1,bob,,\n\n")
    assert stream.requests == (TimedRequest(3, 1, 1, 4, 17, "bob", 1, 1), TimedRequest(1, 3, 2, 5, 9, "ann", 1, 0))
    assert stream.requests[1].properties == {
        "user": "ann",
        "weight": 1,
        "bid": 0,
        "until_start": 9,
        "deadline": 14,
        "ticks": 5,
    }


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", ":1: the column at is missing"),
        ("a.csv", "at,units\n1,1\n", ":1: the column ticks is missing"),
        ("a.csv", "at,units,ticks,weigth\n1,1,1,1\n", ":1: there is no column 'weigth'; did you mean weight?"),
        ("a.csv", "at,units,ticks\n1,1\n", ":2: has 2 values, and the first line 3 names"),
        ("a.csv", "at,units,ticks\n1,1,1\n1,0,1\n", ":3: units is '0'; it needs a whole number from 1"),
        ("a.csv", "at,units,ticks\n1,x,1\n", ":2: units is 'x'"),
        ("a.csv", "at,units,ticks,until_start\n9,1,1,8\n", ":2: until_start is '8'; it needs a whole number from 9"),
        ("a.csv", "at,units,ticks\n", ": has no request"),
        ("a.swf", "1 2 3\n", ":1: has 3 fields; a job of the Standard Workload Format has 18"),
        ("a.swf", ";\n" + "x " * 18, ":2: 'x x x"),
        ("a.swf", "nan " * 18, ":1: 'nan nan"),
        ("a.swf", "; MaxProcs: 8\n", ": has no request"),
    ],
)
def test_a_file_that_is_wrong_is_told_by_its_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(StreamError) as error:
        read(tmp_path, text, name)
    assert str(error.value).startswith(f"{tmp_path / name}{message}")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(StreamError, match="cannot be read: No such file"):
        read_stream(tmp_path / "none.csv", 60, 1, None)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(StreamError, match="it is no text"):
        read_stream(tmp_path / "binary.csv", 60, 1, None)
