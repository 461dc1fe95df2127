"""The guides whose commands are marked: run in the page's order, they say what the page says.

A mark before a block says what it is: `run`, commands that say at once what follows; `wait`, that say so in the end;
`start`, a command that goes on, with its first lines; `kill ACTOR`, its `kill -9`, then as `wait`; `python`, a script;
`file PATH`, a file to write. Other tests hold `from PATH`, a part of a file, and `module NAME`, one in TLA+; what is
`shown` is in another language, and nobody runs it.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- (run|wait|start|kill \S+|python|file \S+) -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"<!-- (?:shown|from \S+|module \S+) -->\n```")
GUIDES = {
    "README": ROOT / "README.md",
    **{page.stem: page for page in (ROOT / "docs/howto").glob("*.md")},
    **{page.parent.name: page for page in (ROOT / "examples").glob("*/README.md")},
}
PAGES = {name: text for name, page in GUIDES.items() if BLOCK.search(text := page.read_text())}
LIMIT_SECONDS = 60
MODULES = {"leasehold": "leasehold", "pytest": "pytest"}


def command(words: str) -> list[str]:
    program, *rest = shlex.split(words)
    return [sys.executable, "-m", MODULES[program], *rest]


def commands(body: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block, with the lines that it is to say."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        first, *lines = part.splitlines()
        yield first, [line for line in lines if line.strip()]


class Reader:
    """Somebody who follows a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pids: dict[str, int] = {}
        self.running: list[subprocess.Popen[str]] = []

    def follow(self, kind: str, body: str) -> None:
        what, _, name = kind.partition(" ")
        match what:
            case "python":
                subprocess.run([sys.executable, "-c", body], cwd=self.folder, check=True, timeout=LIMIT_SECONDS)
            case "file":
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(body)
            case "start":
                self.start(body)
            case _:
                if what == "kill":
                    os.kill(self.pids[name], signal.SIGKILL)
                for words, lines in commands(body):
                    self.expect(words, lines, at_once=what == "run")

    def start(self, body: str) -> None:
        ((words, lines),) = commands(body)
        process = subprocess.Popen(command(words), cwd=self.folder, text=True, stdout=subprocess.PIPE)
        self.running.append(process)
        assert process.stdout is not None
        for shown in lines:
            found = process.stdout.readline().split()
            if found[0] != "actor":
                self.pids[found[0]] = int(found[2])
            assert [w for w in found if not w.isdigit()] == [w for w in shown.split() if not w.isdigit()]

    def expect(self, words: str, lines: list[str], at_once: bool) -> None:
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            done = subprocess.run(
                command(words), cwd=self.folder, text=True, capture_output=True, timeout=LIMIT_SECONDS, check=False
            )
            told = done.stdout + done.stderr
            missing = [line for line in lines if line != "..." and line not in told]  # `...`: what is never the same
            if not missing:
                return
            assert not at_once, (words, missing, told)
            assert time.monotonic() < deadline, (words, missing, told)
            time.sleep(0.2)

    def end(self) -> None:
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            assert process.wait(LIMIT_SECONDS) == 0
            assert process.stdout is not None
            process.stdout.close()
        for pid in self.pids.values():
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


@pytest.mark.long
@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_command_says_what_the_page_says(page: str, tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGES[page])
    for name in ("examples", "tests"):
        if any(f" {name}/" in body for _, body in blocks):
            (tmp_path / name).symlink_to(ROOT / name)
    reader = Reader(tmp_path)
    with ExitStack() as stack:
        stack.callback(reader.end)
        for kind, body in blocks:
            reader.follow(kind, body)


@pytest.mark.parametrize("page", sorted(PAGES.keys() - {"README"}))  # which shows more than it has room to run
def test_every_block_is_run(page: str) -> None:
    text = PAGES[page]
    marked, others = len(BLOCK.findall(text)), len(NOT_RUN.findall(text))
    assert text.count("```") == 2 * (marked + others)
