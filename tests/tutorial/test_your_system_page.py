"""docs/howto/your_system.md: its commands, run in the page's order, say what the page says."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/howto/your_system.md").read_text()
BLOCK = re.compile(r"<!-- (run|start|kill \S+|python) -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LIMIT_SECONDS = 60


def command(words: str) -> list[str]:
    return [sys.executable, "-m", "leasehold", *shlex.split(words.removeprefix("$ leasehold "))]


def said(words: str, cwd: Path) -> str:
    done = subprocess.run(command(words), cwd=cwd, text=True, capture_output=True, timeout=LIMIT_SECONDS, check=False)
    return done.stdout + done.stderr


@pytest.mark.long
def test_every_command_says_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    running: subprocess.Popen[str] | None = None
    pids: dict[str, int] = {}
    try:
        for kind, body in BLOCK.findall(PAGE):
            lines = body.splitlines()
            if kind == "python":
                subprocess.run([sys.executable, "-c", body], cwd=tmp_path, check=True, timeout=LIMIT_SECONDS)
            elif kind == "start":
                running = subprocess.Popen(command(lines[0]), cwd=tmp_path, text=True, stdout=subprocess.PIPE)
                assert running.stdout is not None
                for shown in lines[1:]:
                    found = running.stdout.readline().split()
                    if found[0] != "actor":
                        pids[found[0]] = int(found[2])
                    assert [w for w in found if not w.isdigit()] == [w for w in shown.split() if not w.isdigit()]
            else:
                if kind.startswith("kill "):
                    os.kill(pids[kind.removeprefix("kill ")], signal.SIGKILL)
                deadline = time.monotonic() + LIMIT_SECONDS
                while missing := [s for s in lines[1:] if s not in (told := said(lines[0], tmp_path))]:
                    assert kind.startswith("kill "), (missing, told)  # others say so at once
                    assert time.monotonic() < deadline, (missing, told)
                    time.sleep(0.2)
    finally:
        if running is not None:
            running.terminate()
            assert running.wait(LIMIT_SECONDS) == 0
            assert running.stdout is not None
            running.stdout.close()
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_every_block_is_run() -> None:
    assert PAGE.count("```") == 2 * len(BLOCK.findall(PAGE))
