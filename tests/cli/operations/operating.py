"""The operations page of actors, served in a thread, and a browser on it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from leasehold.cli.operations.audit import AuditTrail
from leasehold.cli.operations.server import OperationsServer
from tests.reports.browser import Browser
from tests.reports.live.serving import ServedPage, ShownPage


class Operating(ServedPage[OperationsServer]):
    """The server of the operations page of the actors at a place.

    Attributes:
        said: the lines that it has said.
        printed: has the audit's lines.
    """

    def __init__(self, at: Path, audit: Path | None = None) -> None:
        self.said: list[str] = []
        self.printed = StringIO()
        super().__init__(OperationsServer([at], 0, AuditTrail(audit, self.printed), self.said.append))

    @property
    def audited(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.printed.getvalue().splitlines()]

    def enter(self) -> tuple[str, str]:
        """Begins a session; returns its cookie, as a request has it, and the key of its page."""
        entrance = self.server.entrance.removeprefix(self.server.url.rstrip("/"))
        status, _, headers = self.ask(entrance)
        assert (status, headers["Location"]) == (303, "/")
        cookie = headers["Set-Cookie"].partition(";")[0]
        page = self.ask("/", Cookie=cookie)[1]
        data = page.partition('<script type="application/json" id="data">')[2].partition("</script>")[0]
        return cookie, json.loads(data)["key"]

    def ask(self, path: str, body: object = None, **headers: str) -> tuple[int, str, dict[str, str]]:
        """Returns the status, text and headers of an answer; with a body, which is sent as JSON, to a POST."""
        content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", content, named)
        try:
            with urllib.request.build_opener(_Stay).open(request, timeout=20) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), dict(error.headers)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection."""

    def redirect_request(self, *args: Any) -> None:
        return None


class OperationsPage(ShownPage):
    """The operations page, as an operator sees it."""

    def text(self, section: str) -> str:
        return str(self.browser.run(f"document.getElementById({section!r}).innerText"))

    def until_says(self, section: str, words: str) -> None:
        """Waits until a section has these words."""
        self.until(f"document.getElementById({section!r}).innerText", lambda text: words in text)

    def row(self, kind: str, name: str) -> str:
        """The selector of an actor's, lease's, unit's or wait's row."""
        return f'[data-{kind}="{name}"]'

    def until_row(self, kind: str, name: str, words: str) -> None:
        """Waits until the row has these words."""
        script = f"document.querySelector({self.row(kind, name)!r})?.innerText ?? ''"
        self.until(script, lambda text: words in text)

    def act(self, action: str, target: str, sure: bool = True) -> None:
        """Presses an action's button, and then, in the question that comes, that one is sure, or not."""
        button = f'button[data-action="{action}"][data-target="{target}"]'
        self.until(f"document.querySelector({button!r}) !== null")
        self.browser.run(f"document.querySelector({button!r}).click()")
        self.until("document.querySelector('dialog[open]') !== null")
        self.browser.run(f"document.querySelector('dialog .{'sure' if sure else 'keep'}').click()")
        self.until("document.querySelector('dialog') === null")


@contextmanager
def operated(served: Operating, width: int = 1400, height: int = 1000) -> Iterator[OperationsPage]:
    """A browser that has begun a session; nothing that its scripts throw is left unseen."""
    with Browser(served.server.entrance, width, height) as browser:
        page = OperationsPage(browser)
        page.until("document.querySelector('#actors tbody tr') !== null")
        yield page
        assert browser.errors == []
