"""Numbers from outside: what is one, from a command or a URL; and that whatever is not harms and delays nobody."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from leasehold.impl.policy.metric import MOST_BYTES, Metric, MetricFault, MetricReader, MetricReading
from tests.waiting import wait_until


def read(**given: object) -> float:
    return asyncio.run(msgspec.convert(given, Metric).read())


def script(text: str) -> list[str]:
    return [sys.executable, "-S", "-c", text]


class Said(BaseHTTPRequestHandler):
    """Answers with its path's last part; `/slow` drips, and `/status` is an error."""

    def do_GET(self) -> None:
        self.send_response(500 if self.path == "/status" else 200)
        self.end_headers()
        if self.path == "/slow":
            for _ in range(100):
                self.wfile.write(b"1")
                self.wfile.flush()
                time.sleep(0.05)
        elif self.path == "/long":
            self.wfile.write(b"1" * 10_000_000)
        else:
            self.wfile.write(self.path.removeprefix("/").encode() + b"\n")

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def place() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Said)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_number_is_the_last_line_that_a_command_prints() -> None:
    assert read(command="echo 70.5") == 70.5
    assert read(command=script("print('a lot of words\\n\\n 12 ')")) == 12


def test_a_number_is_the_body_at_a_url(place: str) -> None:
    assert read(url=f"{place}/0") == 0
    assert read(url=f"{place}/1e3") == 1000


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo many", "says 'many', and not a number from 0 on"),
        ("echo -1", "says '-1', and not a number"),
        ("echo nan", "says 'nan'"),
        ("echo inf", "says 'inf'"),
        ("true", "says '', and not a number"),
        ("./nothing", "./nothing: cannot be read: No such file"),
        (script("import sys; print(7); sys.exit('no ' + 300 * 'x')"), "ended with 1; it said: no xxx"),
        (script("print('9' * 10_000_000)"), "and not a number"),
    ],
)
def test_whatever_else_a_command_says_is_a_fault(command: str | list[str], message: str) -> None:
    with pytest.raises(MetricFault) as error:
        read(command=command)
    assert message in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("status", "answers with status 500"),
        ("many", "says 'many'"),
        ("long", f"says more than {MOST_BYTES} bytes"),
        ("slow", "says nothing within 0.3 s"),
    ],
)
def test_whatever_else_a_url_has_is_a_fault(path: str, message: str, place: str) -> None:
    with pytest.raises(MetricFault, match=message):
        read(url=f"{place}/{path}", seconds=0.3)


def test_a_place_where_nobody_is_is_a_fault() -> None:
    with pytest.raises(MetricFault, match="cannot be read"):
        read(url="http://127.0.0.1:1/load")


def test_a_command_that_takes_too_long_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(MetricFault, match=r"says nothing within 0.5 s"):
        read(command=["sh", "-c", f"(sleep 2; touch {tmp_path}/late) & sleep 60"], seconds=0.5)
    assert time.monotonic() - begun < 10
    time.sleep(2.2)
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either a `command` or a `url`"),
        ({"command": "true", "url": "http://a"}, "either a `command` or a `url`"),
        ({"url": "file:///etc/passwd"}, "begins with neither http:// nor https://"),
        ({"command": "echo 'a"}, "cannot be run: No closing quotation"),
        ({"command": " "}, "cannot be run: it has no word"),
        ({"command": "true", "seconds": 0}, "seconds"),
        ({"command": "true", "every": 0}, "every"),
    ],
)
def test_a_place_that_is_none_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        msgspec.convert(given, Metric)


def test_a_reader_returns_at_once_and_reads_one_at_a_time(tmp_path: Path) -> None:
    mark = tmp_path / "go"
    waits = f"echo began >> {tmp_path}/begun; while [ ! -e {mark} ]; do sleep 0.02; done; echo 5"
    reader = MetricReader(Metric(command=["sh", "-c", waits], every=2))
    begun = time.monotonic()
    for now in range(1, 8):
        reader.poll(now)
    assert time.monotonic() - begun < 1
    assert reader.last is None
    mark.touch()
    wait_until(lambda: reader.last is not None)
    assert reader.last is not None
    assert (reader.last.at, reader.last.number, reader.last.fault) == (1, 5, "")
    wait_until(lambda: not reader._thread.is_alive())  # type: ignore[union-attr]
    reader.poll(2)
    assert (tmp_path / "begun").read_text().count("began") == 1, "none is due before two ticks have passed"
    reader.poll(3)
    wait_until(lambda: reader.last is not None and reader.last.at == 3)


class Hanging(Metric, frozen=True):
    """A place whose reading blocks its thread, whatever its limit is."""

    async def read(self) -> float:
        while not Path(self.words()[-1]).exists():
            time.sleep(0.01)
        return 5.0


def test_a_reading_that_hangs_in_spite_of_its_limit_is_a_fault_and_what_it_says_late_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.impl.policy.metric.GRACE_SECONDS", 0.1)
    reader = MetricReader(Hanging(command=["wait", str(tmp_path / "go")], seconds=0.1))
    reader.poll(1)
    wait_until(lambda: reader.poll(2) or reader.last is not None)
    silent = MetricReading(1, None, f"wait {tmp_path}/go: says nothing within 0.1 s")
    assert reader.last == silent
    (tmp_path / "go").touch()
    wait_until(lambda: not reader._thread.is_alive())  # type: ignore[union-attr]
    assert reader.last == silent
    monkeypatch.undo()
    reader.poll(9)
    wait_until(lambda: reader.last is not None and reader.last.number == 5)
