"""The server of the live page: who may ask it, nonsense, and what it tells while a system is explored and edited."""

import asyncio
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.reports.live.background import SearchOrder, search
from leasehold.reports.live.session import LiveSystem
from tests.reports.live.serving import PATIENCE, Served
from tests.systems import TESTS, files_of, write

SAGA = TESTS / "reports/live/systems/saga"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(str(SAGA), faults="crash=1") as server:
        yield server


def get(served: Served, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    request = urllib.request.Request(f"http://127.0.0.1:{served.server.port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


@pytest.mark.parametrize("path", ["/", "/system", "/at?trail=", "/found", "/changes"])
@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1", "127.0.0.1:1", "localhost.attacker.example:{port}"])
def test_a_page_of_another_origin_is_refused(served: Served, path: str, host: str) -> None:
    """One that has made its own name lead here (DNS rebinding); no answer may be read from elsewhere either."""
    status, text, headers = get(served, path, Host=host.format(port=served.server.port))
    assert status == 403
    assert "answers at" in text
    assert "Access-Control-Allow-Origin" not in headers


def test_it_listens_on_this_machine_alone(served: Served) -> None:
    others = [a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    for address in (a for a in others if not str(a).startswith("127.")):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((str(address), served.server.port), timeout=5)
    assert get(served, "/system")[0] == 200


@pytest.mark.parametrize("query", ["since=x", "since=-1", "since=9999999", f"trail={'a.' * 10_001}a", "since=1.5"])
def test_nonsense_is_refused(served: Served, query: str) -> None:
    status, text, _ = get(served, f"/at?{query}")
    assert status in (400, 414)
    assert "Traceback" not in text


def test_a_position_is_told_from_the_entry_that_is_asked_for(served: Served) -> None:
    whole = json.loads(get(served, "/at?trail=")[1])
    trail = [*whole["trail"], next(c["key"] for c in whole["choices"] if not c["fault"])]
    first = json.loads(get(served, f"/at?trail={'.'.join(trail)}")[1])
    later = json.loads(get(served, f"/at?since=1&trail={'.'.join(trail)}")[1])
    assert first["entries"] == [*whole["entries"], *later["entries"]]
    assert first["lost"] is None
    lost = json.loads(get(served, f"/at?trail={'.'.join(trail)}.nothing")[1])
    assert (lost["lost"], lost["trail"]) == (2, trail)


def test_a_hostile_text_stays_data(tmp_path: Path) -> None:
    """Nothing of a specification, nor of its name, can end the script of the page."""
    files = files_of("reports/live/systems/saga")
    files["system.yaml"] = files["system.yaml"].replace(
        "A customer asks", "</script><script>alert(1)</script> A customer"
    )
    with Served(str(write(tmp_path / "<b>saga", files))) as served:
        text = get(served, "/")[1]
    assert "<script>alert(1)" not in text
    assert "<title>" in text
    assert "<b>saga" not in text.split("</title>")[0]


def test_a_search_tells_what_it_has_found() -> None:
    """Without faults, then under them: verdicts, and the trails along their paths."""
    told: list[dict[str, object]] = []
    search(SearchOrder(str(SAGA), {}, "crash=1", 20.0, None), told.append)
    found = [words for words in told if "properties" in words]
    assert [words["faults"] for words in found] == ["none", "crash=1"]
    assert told[-1] == {"phase": "done"}
    for words in found:
        verdicts = {p["name"]: p for p in words["properties"]}  # type: ignore[attr-defined]
        assert verdicts["nobody_is_booked_in_vain"]["verdict"] == "violated"
        assert len(verdicts["nobody_is_booked_in_vain"]["path"]) == 5


def test_a_search_of_an_older_text_is_not_heard() -> None:
    """Its verdicts come when the files have changed meanwhile."""
    with Served(str(SAGA)) as served:
        server = served.server
        older, now = server.live.version - 1, server.live.version

        async def hear(version: int, told: dict[str, object]) -> None:
            server._hear(version, told)

        for version, wanted in ((older, None), (now, {"properties": [], "faults": "none"})):
            for told in ({"phase": f"searching {version}"}, {"properties": [], "faults": "none"}):
                asyncio.run_coroutine_threadsafe(hear(version, told), served.loop).result(PATIENCE)
            assert json.loads(get(served, "/found")[1]) == wanted
        assert json.loads(get(served, "/system")[1])["progress"] == {"phase": f"searching {now}"}


def test_a_search_that_fails_says_so() -> None:
    with Served(str(SAGA), faults="crash=1", seconds=20) as served:
        served.server.order = SearchOrder("no_such_system", {}, None, 1.0, None)
        served.loop.call_soon_threadsafe(served.server._explore)
        end, progress = time.monotonic() + PATIENCE, {"phase": ""}
        while progress["phase"] != "failed" and time.monotonic() < end:
            time.sleep(0.05)
            progress = json.loads(get(served, "/system")[1])["progress"]
        assert "no_such_system" in progress["reason"]


def test_files_that_no_walk_can_begin_with_change_nothing(tmp_path: Path) -> None:
    """The last system stays; what is wrong is said: a first state that there is not, faults that it cannot have."""
    folder = write(tmp_path / "saga", files_of("reports/live/systems/saga"))
    live = LiveSystem(str(folder), {}, "amnesia=1")
    trail = list(live.at([], 0)["trail"])
    system, role = folder / "system.yaml", folder / "roles/hotel.yaml"
    before, hotel = system.read_text(), role.read_text()
    system.write_text(before + "initially: customer.state == asking and customer.state == idle\n")
    live.read()
    assert "error" in {d.severity for d in live.diagnostics}
    assert live.at(trail, 0)["lost"] is None
    system.write_text(before)
    role.write_text(hotel.replace("{type: int, initial: 1}", "{type: int, min: 0, max: 1, initial: any}"))
    assert live.changed()
    live.read()
    assert live.trouble.startswith("--faults amnesia=1: ")
    assert live.json()["trouble"] == live.trouble
    assert live.at(trail, 0)["lost"] is None
    role.write_text(hotel)
    live.read()
    assert (live.trouble, list(live.diagnostics)) == ("", [])
