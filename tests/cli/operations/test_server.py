"""The server of the operations page: who may ask it, who may act, the audit, and names that are hostile."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from leasehold.cli.operations.actions import ACTIONS
from leasehold.cli.operations.server import KEY_HEADER
from leasehold.impl.server.client import Unreachable
from tests.cli.operations.operating import Operating, operated
from tests.reports.browser import PROGRAM
from tests.waiting import wait_until

HOSTILE = '<img src=x onerror="document.title=1">&amp;</script><script>document.title=1</script>`"\''
CONFIGURATION = "{name: chief, store: 'sqlite:chief.db', listen: 'http://127.0.0.1:1', key: k, trust: t, system: S}"
HEADER = KEY_HEADER.replace("-", "_")


def shown(lease: str, unit: str, **more: Any) -> dict[str, Any]:
    """The last figures of an actor that has gone."""
    cells = {
        "lasted": "1 s",
        "record": unit,
        "past": unit,
        "machine": unit,
        "state": unit,
        "lease": lease,
        "left": None,
    }
    row = {"lease": lease, "actor": "chief", "machine": unit, "state": unit, "over": False, "text": unit}
    wait = {"lease": lease, "machine": unit, "actor": "chief", "state": unit, "when": unit, "events": [unit]}
    calendar = {"unit": unit, "state": unit, "since": 5, "use": "used", "lease": lease, "until": 90, "past": []}
    return {
        "rows": [row],
        "units": [{"unit": unit, "actor": "chief", **cells}],
        "unit_count": 1,
        "unit_recovery": True,
        "waits": [{**wait, "whom": [unit]}],
        "calendar": [{**calendar, "flags": [unit]}],
        "periods": [{"lease": lease, "start": 5, "end": 90, "units": 2, "state": unit}],
        "roles": [unit],
        "epoch": 1,
        "now": 10,
        "tick_seconds": 1.0,
        "last": 3,
        "last_at": 0.0,
        "running": True,
        "followers": {unit: 1},
        "metrics": [{"name": unit, "help": unit, "value": 1, "rate": True, "points": [1, 2]}],
        **more,
    }


def place(folder: Path, **more: Any) -> Operating:
    """A page of an actor that is down, and has shown something before."""
    (folder / "chief.yaml").write_text(CONFIGURATION)
    served = Operating(folder, folder / "audit.jsonl")
    watch = next(watch for watch in served.server.watches.values() if watch.place.name == "chief")
    watch.view |= more
    return served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Operating]:
    with place(tmp_path, **shown("chief:1", "node-1")) as made:
        yield made


PATHS = ["/", "/state", "/changes", "/nothing", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/state/..%2f..%2fx"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("cookie", ["", "leasehold_{port}=", "leasehold_{port}=guess", "leasehold={token}"])
def test_nothing_is_told_without_a_session(served: Operating, path: str, cookie: str) -> None:
    given = cookie.format(port=served.server.port, token=served.server.access.token)
    status, text, headers = served.ask(path, **({"Cookie": given} if given else {}))
    assert status == 401
    assert "chief" not in text
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("token", ["", "guess", "%00", "ü"])
def test_a_wrong_token_is_refused(served: Operating, token: str) -> None:
    right = served.server.access.token
    for wrong in (token, right[:-1], right + "x"):
        status, text, headers = served.ask(f"/?token={quote(wrong)}")
        assert (status, "Set-Cookie" in headers) == (403, False)
        assert "token is wrong" in text
    assert served.said == []


def test_a_token_is_exchanged_once_for_a_cookie_that_no_script_and_no_other_site_has(served: Operating) -> None:
    first = served.server.entrance.removeprefix(served.server.url.rstrip("/"))
    status, _, headers = served.ask(first)
    assert (status, headers["Location"]) == (303, "/")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(headers["Set-Cookie"].split("; "))
    assert served.ask(first)[0] == 403
    assert served.said == [f"session 1 has begun; another begins at {served.server.entrance}"]
    status, page, headers = served.ask("/", Cookie=headers["Set-Cookie"].partition(";")[0])
    assert (status, "token=" in page) == (200, False)
    assert (headers["X-Frame-Options"], headers["Referrer-Policy"]) == ("DENY", "no-referrer")


@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1", "127.0.0.1:1", "localhost.attacker.example:{port}"])
def test_a_forged_host_is_refused_with_a_session_too(served: Operating, host: str) -> None:
    cookie, key = served.enter()
    name = host.format(port=served.server.port)
    for path in ("/", "/state", "/changes", served.server.entrance.removeprefix(served.server.url.rstrip("/"))):
        assert served.ask(path, Cookie=cookie, Host=name)[0] == 403
    asked = {"action": "close", "target": "chief:1"}
    status, _, _ = served.ask("/act", asked, Cookie=cookie, Host=name, Origin=f"http://{name}", **{HEADER: key})
    assert status == 403
    assert served.audited == []


@pytest.mark.parametrize(
    ("status", "changed"),
    [
        (401, {"Cookie": ""}),
        (401, {"Cookie": "leasehold_1=guess"}),
        (403, {"Origin": ""}),
        (403, {"Origin": "null"}),
        (403, {"Origin": "http://attacker.example"}),
        (403, {"Origin": "http://127.0.0.1:1"}),
        (403, {"Origin": "https://127.0.0.1:{port}"}),
        (403, {HEADER: ""}),
        (403, {HEADER: "guess"}),
    ],
)
def test_an_action_from_elsewhere_is_refused_and_leaves_no_trace(
    served: Operating, status: int, changed: dict[str, str]
) -> None:
    cookie, key = served.enter()
    port = served.server.port
    right = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{port}", HEADER: key}
    headers = {name: value.format(port=port) for name, value in {**right, **changed}.items() if value}
    asked = {"action": "close", "target": "chief:1"}
    assert served.ask("/act", asked, **headers)[0] == status
    assert served.audited == []
    other_cookie, other_key = served.enter()  # of another session, whose page has another key
    assert served.ask("/act", asked, **{**right, HEADER: other_key})[0] == 403
    assert served.ask("/act", asked, **{**right, "Cookie": other_cookie})[0] == 403
    assert served.audited == []
    assert served.ask("/act", asked, **right)[0] == 200


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b"{"),
        (400, b"\xff"),
        (400, b"[" * 10_000),
        (400, []),
        (400, {"action": "close"}),
        (400, {"action": ["close"], "target": "chief:1"}),
        (400, {"action": "demand", "target": "chief:1"}),
        (400, {"action": "__init__", "target": "chief:1"}),
        (404, {"action": "close", "target": "chief:2"}),
        (404, {"action": "close", "target": "node-1"}),
        (404, {"action": "recover", "target": "../about"}),
        (404, {"action": "recover", "target": ".."}),
        (413, b'{"action": "' + b"x" * 20_000 + b'"}'),
    ],
)
def test_nonsense_is_refused_and_leaves_no_trace(served: Operating, status: int, body: object) -> None:
    cookie, key = served.enter()
    headers = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{served.server.port}", HEADER: key}
    answer, text, _ = served.ask("/act", body, **headers)
    assert (answer, "Traceback" in text) == (status, False)
    assert served.audited == []


def silent(served: Operating) -> bool:
    """Returns whether its actor is known not to answer."""
    return served.server.state()["actors"][0]["answers"] is False


def act(served: Operating, action: str, target: str) -> tuple[int, str]:
    cookie, key = served.enter()
    headers = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{served.server.port}", HEADER: key}
    status, text, _ = served.ask("/act", {"action": action, "target": target}, **headers)
    return status, text


def test_an_action_at_an_actor_that_is_down_is_audited_before_and_after(served: Operating, tmp_path: Path) -> None:
    wait_until(lambda: silent(served))
    status, text = act(served, "recover", "node-1")
    assert (status, json.loads(text)["outcome"]) == (200, "refused")
    intent, outcome = served.audited
    assert (intent["outcome"], outcome["outcome"]) == ("intended", "refused")
    assert intent["number"] == outcome["number"] == 1
    assert intent["who"] == outcome["who"] == {"user": served.server.audit.user, "session": 1}
    assert outcome["words"] == "chief does not answer, so nothing was sent to it"
    assert (tmp_path / "audit.jsonl").read_text() == served.printed.getvalue()


def test_nobody_closes_where_no_actor_takes_demands(served: Operating) -> None:
    status, text = act(served, "close", "chief:1")
    assert (status, json.loads(text)["outcome"]) == (200, "refused")
    assert "no actor here takes demands" in served.audited[1]["words"]


def test_without_the_audit_nothing_is_done(served: Operating, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setitem(ACTIONS, "close", lambda target, views: sent.append(target))
    os.replace(tmp_path / "audit.jsonl", tmp_path / "moved")
    (tmp_path / "audit.jsonl").mkdir()
    status, text = act(served, "close", "chief:1")
    assert status == 503
    assert text.startswith("nothing was done: the audit cannot be written")
    assert (sent, served.audited) == ([], [])


def test_an_actor_that_does_not_answer_says_since_when_and_keeps_what_it_showed(served: Operating) -> None:
    wait_until(lambda: silent(served))
    (before,) = served.server.state()["actors"]
    (watch,) = served.server.watches.values()
    watch.look()
    (after,) = served.server.state()["actors"]
    assert before["silent"] == after["silent"]
    assert "no actor answers" in after["why"]
    assert [lease["lease"] for lease in served.server.state()["leases"]] == ["chief:1"]


def test_an_actor_that_hangs_does_not_delay_the_others(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(tmp_path / "hung.sock"))
        hung.listen(64)
        with place(tmp_path) as served:
            assert served.server.names == {"chief", "hung"}

            def answers() -> dict[str, bool | None]:
                return {actor["name"]: actor["answers"] for actor in served.server.state()["actors"]}

            wait_until(lambda: answers()["chief"] is False)
            assert answers() == {"chief": False, "hung": None}
            wait_until(lambda: answers()["hung"] is False)


def test_an_actor_that_comes_later_is_shown(served: Operating, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(CONFIGURATION.replace("chief", "other"))
    wait_until(lambda: served.server.names == {"chief", "other"})


def test_a_place_without_actors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="there is no socket of an actor"):
        Operating(tmp_path)


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
def test_hostile_names_stay_text_in_the_page(tmp_path: Path) -> None:
    violation = {"property": HOSTILE, "run": HOSTILE, "doc": HOSTILE, "blame": HOSTILE, "text": HOSTILE}
    with place(tmp_path, **shown(HOSTILE, HOSTILE, takes_demands=True)) as served:
        served.server.followed.end()
        served.server.followed.join()
        found = {"events": 1, "runs": 1, "cuts": 1, "asked": 1, "behind": 0, "violation_count": 1, "fault_count": 1}
        served.server.followed.view = {
            "state": "follows",
            "why": HOSTILE,
            "unreachable": {HOSTILE: HOSTILE},
            "faults": [HOSTILE],
            "violations": [{**violation, "command": HOSTILE}],
            **found,
        }
        with operated(served) as page:
            for section in ("leases", "units", "waits", "violations", "metrics"):
                page.until_says(section, HOSTILE)
            page.act("recover", HOSTILE.replace("\\", "\\\\").replace('"', '\\"'))
            page.until("document.querySelector('.outcome')?.innerText ?? ''", lambda text: HOSTILE in text)
            assert page.browser.run("document.querySelectorAll('main img, main script, dialog img').length") == 0
            assert page.browser.run("document.title") == "Leasehold: operations"
    assert served.audited[0]["target"] == HOSTILE
