"""A headless Chromium, driven through pipes with the DevTools protocol: what the page does in a real browser.

``python tests/reports/browser.py PAGE PICTURE.png WIDTH HEIGHT [SCRIPT]`` takes a picture.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]
# Chromium reads commands from descriptor 3 and writes answers and events to 4, each ended by a zero byte.
EXEC = 'exec "$@" 3<&$COMMANDS 4>&$ANSWERS'


class Browser:
    """One page, a file or an address, shown at `width` by `height` CSS pixels; `errors` has what its scripts throw."""

    def __init__(self, page: Path | str, width: int, height: int) -> None:
        assert PROGRAM is not None
        self.errors: list[str] = []
        self._number, self._session = 0, ""
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        self._pending = b""
        self._process = subprocess.Popen(
            ["bash", "-c", EXEC, "bash", PROGRAM, *FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"],
            env={**os.environ, "COMMANDS": str(commands), "ANSWERS": str(answers)},
            pass_fds=(commands, answers),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Page.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its result."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": parameters, **session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def type(self, words: str) -> None:
        """Types into the element that has the focus."""
        self.call("Input.insertText", text=words)

    def picture(self) -> bytes:
        """Returns what is seen, as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            received = os.read(self._read, 1 << 20)
            assert received, "chromium ended"
            self._pending += received
        message, _, self._pending = self._pending.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        if answer.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(answer["params"]["exceptionDetails"]))
        return answer


if __name__ == "__main__":
    page, target, width, height, *script = sys.argv[1:]
    with Browser(page if "://" in page else Path(page), int(width), int(height)) as shown:
        for words in script:
            shown.run(words)
        shown.run("new Promise((done) => setTimeout(done, 400))")
        Path(target).write_bytes(shown.picture())
        print(shown.run("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"), *shown.errors)
