"""A live page that is served in a thread, and a browser on it, which is driven as a person would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from leasehold.impl.words import counted
from leasehold.reports.live.background import SearchOrder
from leasehold.reports.live.page_server import PageServer
from leasehold.reports.live.server import LiveServer
from leasehold.reports.live.session import LiveSystem
from tests.reports.browser import Browser

PATIENCE = 30.0  # seconds in which a page has to show something


S = TypeVar("S", bound=PageServer)


class ServedPage(Generic[S]):
    """A server in a thread of its own, which ends with the block."""

    def __init__(self, server: S) -> None:
        self.server = server
        self.loop = asyncio.new_event_loop()
        self._thread = Thread(target=self.loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.start(), self.loop).result(PATIENCE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self.server.close(), self.loop).result(PATIENCE)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Served(ServedPage[LiveServer]):
    """The server of a system's live page."""

    def __init__(
        self, name: str, settings: dict[str, str] | None = None, faults: str | None = None, seconds: float = 0
    ):
        order = SearchOrder(name, settings or {}, faults, seconds, None) if seconds else None
        super().__init__(LiveServer(LiveSystem(name, settings or {}, faults), order, 0))


class ShownPage:
    """A page, as somebody sees it."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def until(self, script: str, wanted: Callable[[Any], object] = bool) -> Any:
        """The value of an expression in the page, once it is what is wanted."""
        end = time.monotonic() + PATIENCE
        while not wanted(value := self.browser.run(script)):
            assert time.monotonic() < end, (script, value, self.browser.errors)
            self.browser.run("new Promise((done) => setTimeout(done, 20))")
        return value


class LivePage(ShownPage):
    """The live page of a system."""

    @property
    def choices(self) -> list[str]:
        """The words of the steps that are possible, faults last."""
        words = self.browser.run("[...document.querySelectorAll('.choice .words')].map((e) => e.textContent)")
        assert isinstance(words, list)
        return words

    @property
    def where(self) -> str:
        return str(self.browser.run("document.querySelector('.where').textContent"))

    @property
    def address(self) -> str:
        return str(self.browser.run("location.href"))

    def states(self) -> dict[str, str]:
        """The control state of each machine, as the panel says."""
        rows = "[...document.querySelectorAll('.bench .facts .machine')]"
        cells = self.browser.run(f"{rows}.map((row) => [...row.children].map((cell) => cell.textContent))")
        return {row[0]: row[1] for row in cells if len(row) == 2}

    def take(self, words: str) -> None:
        """Takes the first step whose words begin so."""
        number = self.steps
        pressed = self.browser.run(
            "(() => { const found = [...document.querySelectorAll('.choice')].find((e) => e.querySelector('.words')"
            f".textContent.startsWith({words!r})); found?.click(); return Boolean(found); }})()"
        )
        assert pressed, (words, self.choices)
        self.until(
            "document.querySelector('.where').textContent", lambda said: said == f"after {counted(number + 1, 'step')}"
        )

    @property
    def steps(self) -> int:
        words = self.where
        return 0 if words == "at the start" else int(words.split()[1].replace(",", ""))

    def press(self, key: str) -> None:
        self.browser.run(f"document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: {key!r}, bubbles: true}}))")

    def at(self, number: int) -> None:
        """Waits until the page is so many steps from the start."""
        wanted = f"after {counted(number, 'step')}" if number else "at the start"
        self.until("document.querySelector('.where').textContent", lambda said: said == wanted)


@contextmanager
def opened(url: str, width: int = 1400, height: int = 900) -> Iterator[LivePage]:
    """A browser on the page; nothing that its scripts throw is left unseen."""
    with Browser(url, width, height) as browser:
        page = LivePage(browser)
        page.until(
            "document.querySelectorAll('.choice').length > 0 || document.querySelector('#findings pre') !== null"
        )
        yield page
        assert browser.errors == []
