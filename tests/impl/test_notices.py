"""Notices: who hears of them, what a subscriber may change, and what becomes of its errors."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from leasehold.impl.notices import Consumed, Kind, Notice, Notices, SimulatedCrash

ABOUT_TO = {Kind.RECEIVE, Kind.SEND, Kind.COMMIT, Kind.CALL, Kind.FORGET}
EACH = pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.value)


def heard_by(notices: Notices) -> list[tuple[int, str]]:
    """Adds two subscribers that watch; returns what each hears, in order."""
    heard: list[tuple[int, str]] = []
    for number in (1, 2):

        def watch(notice: Notice, number: int = number) -> None:
            heard.append((number, notice.name))

        notices.subscribe(watch)
    return heard


@EACH
def test_a_subscriber_may_alter_or_consume_what_has_not_happened_yet(kind: Kind) -> None:
    """Those behind it hear what it has made of the notice, or nothing; of what has happened it changes nothing."""
    assert kind.about_to == (kind in ABOUT_TO)
    for consumes in (False, True):
        notices = Notices()

        def change(notice: Notice, consumes: bool = consumes) -> Notice:
            if consumes:
                raise Consumed
            return replace(notice, name="altered")

        notices.subscribe(change)
        heard = heard_by(notices)
        notice = Notice(kind, "site", name="said")
        told = notices.tell(notice)
        if kind not in ABOUT_TO:
            assert (told, heard) == (notice, [(1, "said"), (2, "said")])
        elif consumes:
            assert (told, heard) == (None, [])
        else:
            assert (told, heard) == (replace(notice, name="altered"), [(1, "altered"), (2, "altered")])
        assert notices.masked == (consumes and kind not in ABOUT_TO)


@EACH
@pytest.mark.parametrize("error", [ValueError("no"), KeyError("k"), AssertionError()], ids=repr)
def test_an_error_of_a_subscriber_is_masked_counted_and_logged(
    kind: Kind, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(notice: Notice) -> None:
        raise error

    notices = Notices()
    notices.subscribe(fails)
    heard = heard_by(notices)
    notices.subscribe(fails)
    notice = Notice(kind, "site", name="said")
    with caplog.at_level(logging.WARNING):
        assert notices.tell(notice) == notice
    assert (notices.masked, heard) == (2, [(1, "said"), (2, "said")])
    assert f"fails) failed: {type(error).__name__}: {error}" in caplog.text


def test_what_is_consumed_though_it_has_happened_is_said(caplog: pytest.LogCaptureFixture) -> None:
    def consumes(notice: Notice) -> None:
        raise Consumed

    notices = Notices()
    notices.subscribe(consumes)
    with caplog.at_level(logging.WARNING):
        assert notices.tell(Notice(Kind.COMMITTED, "site")) is not None
    assert "consumed what has happened already" in caplog.text


@EACH
def test_a_simulated_crash_goes_through_everything(kind: Kind) -> None:
    def crashes(notice: Notice) -> None:
        raise SimulatedCrash

    notices = Notices()
    notices.subscribe(crashes)
    heard = heard_by(notices)
    with pytest.raises(SimulatedCrash):
        notices.tell(Notice(kind, "site"))
    assert (heard, notices.masked) == ([], 0)


def test_a_subscriber_hears_until_it_is_taken_away_also_by_itself() -> None:
    """Subscribers that leave while a notice is told change nothing for others; those that come hear the next one."""
    notices, heard = Notices(), list[str]()

    def once(notice: Notice) -> None:
        heard.append(f"once {notice.name}")
        leave()
        notices.subscribe(late)

    def late(notice: Notice) -> None:
        heard.append(f"late {notice.name}")

    def stays(notice: Notice) -> None:
        heard.append(f"stays {notice.name}")

    leave, stop = notices.subscribe(once), notices.subscribe(stays)
    for name in ("a", "b"):
        notices.tell(Notice(Kind.CALL, "site", name=name))
    assert heard == ["once a", "stays a", "stays b", "late b"]
    stop()
    notices.tell(Notice(Kind.CALL, "site", name="c"))
    assert heard[4:] == ["late c"]


def test_an_answer_that_is_no_notice_changes_nothing() -> None:
    notices = Notices()
    notices.subscribe(lambda notice: "altered")  # type: ignore[arg-type,return-value]
    heard = heard_by(notices)
    notice = Notice(Kind.SEND, "site", name="said")
    assert (notices.tell(notice), heard, notices.masked) == (notice, [(1, "said"), (2, "said")], 0)
