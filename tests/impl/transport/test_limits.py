"""The limits, with a clock that the test moves."""

import logging
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.transport.limits import LIMITS, Refusals, SparseLog, TokenBucket
from leasehold.impl.transport.transport import TransportError


def test_a_bucket_gives_its_burst_and_then_its_rate():
    bucket = TokenBucket(rate=2, burst=3, now=0)
    assert [bucket.take(0) for _ in range(4)] == [True, True, True, False]
    assert bucket.wait(0) == 0.5
    assert not bucket.take(0.25)
    assert bucket.take(0.5)
    assert not bucket.take(0.75)
    assert [bucket.take(100) for _ in range(4)] == [True, True, True, False], "it never holds more than its burst"


def test_a_clock_that_goes_back_gives_nothing():
    bucket = TokenBucket(rate=1, burst=1, now=10)
    assert bucket.take(10)
    assert not bucket.take(0)
    assert not bucket.take(10.5)
    assert bucket.take(11)


@given(st.integers(1, 9), st.integers(1, 9), st.lists(st.integers(0, 300), max_size=60))
def test_no_more_is_ever_given_than_burst_and_rate_allow(rate, burst, pauses):
    now, given_out, bucket = 0.0, 0, TokenBucket(rate, burst, 0)
    for pause in pauses:
        now += pause / 100
        given_out += bucket.take(now)
        assert given_out <= burst + rate * now + 1e-6


def test_the_limits_that_nobody_has_set():
    """An actor's own are of no use where its peers' differ: both ends begin with these."""
    assert asdict(LIMITS) == {
        "parcel": 262_144,
        "body": 1_048_576,
        "batch": 256,
        "in_flight": 4,
        "waiting": 10_000,
        "receiving": 4096,
        "connections": 256,
        "connections_in_all": 1024,
        "reserve": 256,
        "backlog": 512,
        "header_seconds": 10,
        "body_seconds": 10,
        "taking_seconds": 30,
        "idle_seconds": 75,
        "answer_seconds": 10,
        "send_seconds": 15,
        "refusals": 100,
        "refusals_per_second": 10,
        "close_seconds": 2,
    }


def test_a_log_without_settings_has_ten_lines_of_a_kind_at_once_and_then_one_each_second(caplog):
    log = SparseLog(logging.getLogger("test.sparse"))
    for second, lines in ((0, 10), (0.9, 0), (1, 1), (1.9, 0), (2, 1), (100, 10)):
        caplog.clear()
        for _ in range(20):
            log.warning(second, "kind", "a line")
        assert len(caplog.records) == lines, second


def test_a_bucket_says_whether_it_is_full():
    bucket = TokenBucket(rate=1, burst=2, now=0)
    assert bucket.full(0)
    bucket.use(0)
    assert not bucket.full(0)
    assert not bucket.full(0.9)
    assert bucket.full(1)
    for _ in range(5):
        bucket.use(1)
    assert bucket.wait(1) == 1, "there is no debt"
    assert (bucket.full(2), bucket.full(3)) == (False, True)


def test_one_address_that_is_refused_does_not_stop_another():
    refusals = Refusals(replace(LIMITS, refusals=2, refusals_per_second=1))
    for _ in range(2):
        refusals.add("bad", 0)
    assert refusals.wait("bad", 0) == 1
    assert refusals.wait("good", 0) == 0
    assert refusals.wait("bad", 1) == 0


def test_who_is_refused_without_end_has_no_debt():
    refusals = Refusals(replace(LIMITS, refusals=3, refusals_per_second=2))
    for _ in range(1000):
        refusals.add("bad", 0)
    assert refusals.wait("bad", 0) == 1 / 2


def test_addresses_without_end_do_not_fill_the_memory():
    refusals = Refusals(replace(LIMITS, refusals=5, refusals_per_second=1))
    for i in range(20_000):
        refusals.add(f"a{i}", 0)
    assert len(refusals._buckets) <= 10_000
    refusals.add("late", 1000)
    assert len(refusals._buckets) == 1, "those that were not refused for long are forgotten"


def test_a_log_says_how_much_it_left_out(caplog):
    caplog.set_level(logging.WARNING)
    log = SparseLog(logging.getLogger("test.sparse"), per_second=1, burst=2)
    for i in range(10):
        log.warning(0, "kind", "line %d", i)
    log.warning(0, "other", "another kind")
    log.warning(1, "kind", "line %d", 10)
    assert [r.getMessage() for r in caplog.records] == [
        "line 0",
        "line 1",
        "another kind",
        "line 10 (and 8 more of this kind before it, not logged)",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parcel": 0}, "`parcel` must be a whole number above 0"),
        ({"parcel": 1.5}, "`parcel`"),
        ({"batch": True}, "`batch`"),
        ({"send_seconds": -1}, "`send_seconds` must be a number above 0"),
        ({"send_seconds": "10"}, "`send_seconds`"),
        ({"answer_seconds": float("nan")}, "`answer_seconds`"),
        ({"body": LIMITS.parcel + 3}, "must hold one frame"),
        *(({field.name: 0}, f"`{field.name}` must be") for field in fields(LIMITS)),
        *(({field.name: True}, f"`{field.name}` must be") for field in fields(LIMITS)),
    ],
)
def test_limits_that_make_no_sense_are_refused(changes, words):
    with pytest.raises(TransportError, match=words):
        replace(LIMITS, **changes)
    assert replace(LIMITS, **dict.fromkeys(("batch", "refusals", "close_seconds"), 1)).batch == 1


def test_those_that_are_refused_again_are_remembered_longest():
    refusals = Refusals(replace(LIMITS, refusals=2, refusals_per_second=1))
    for name in ("first", "second"):
        refusals.add(name, 0)
        refusals.add(name, 0)
    for second in range(1, 4):  # who goes on is not forgotten, though it came first
        refusals.add("first", second)
        refusals.add("first", second)
    refusals.add("third", 3)
    assert list(refusals._buckets) == ["first", "third"]
    assert refusals.wait("first", 3) == 1


def test_a_log_has_the_error_of_its_line(caplog):
    log, error = SparseLog(logging.getLogger("test.sparse")), ValueError("no")
    log.warning(0, "kind", "it failed", exc_info=error)
    assert caplog.records[0].exc_info[1] is error


def test_what_is_too_large_is_refused_with_its_size():
    reply = replace(LIMITS, parcel=10).too_large(b"x" * 11)
    assert (reply.answer.value, reply.reason) == ("refused", "the frame has 11 bytes, and 10 are accepted")
    assert replace(LIMITS, body=LIMITS.parcel + 4).body == LIMITS.parcel + 4


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=60))
def test_each_line_is_logged_or_counted_once(events):
    """Of each kind, the lines and the counts that they say add up to what was to be logged, but for what waits."""
    seen = []
    logger = logging.Logger("test.sparse.counted")
    logger.addHandler(handler := logging.Handler())
    handler.emit = lambda record: seen.append(record.getMessage())
    log, now, asked = SparseLog(logger, per_second=1, burst=2), 0.0, {"a": 0, "b": 0}
    for kind, tenths in events:
        now += tenths / 10
        asked[kind] += 1
        log.warning(now, kind, f"line of {kind}")
    for kind in asked:  # long after, a last line tells all that waits
        asked[kind] += 1
        log.warning(now + 100, kind, f"line of {kind}")
    for kind, count in asked.items():
        lines = [line for line in seen if line.startswith(f"line of {kind}")]
        left_out = [int(line.partition("(and ")[2].split()[0]) for line in lines if "(and" in line]
        assert len(lines) + sum(left_out) == count
        assert 0 not in left_out
