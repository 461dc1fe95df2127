"""Renews the tutorial's blocks: ``python tests/tutorial/render.py`` prints the page with what its commands say now.

The page is its own template. In the order of the page, in an empty folder:

- a `console` block holds commands (`$ ...`), each followed by all that it prints, run as they stand;
- `<!-- edit FILE -->` before a `diff` block applies the diff to FILE, which must have the old lines exactly once;
- `<!-- mistake NAME -->` before a `diff` block puts mistakes/NAME.yaml there, applied to a fresh copy of the lease;
- `<!-- from FILE -->` before a `yaml` block holds the block to a part of FILE.

Times, rates, memory and digests differ from run to run: where nothing else differs, the page keeps what it has.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
MISTAKES = Path(__file__).with_name("mistakes")
LEASE = "my_lease"  # the copy that mistakes are made in

_BLOCK = re.compile(
    r"(?P<head>(?:<!-- (?P<order>edit|mistake|from) (?P<what>\S+) -->\n)?```(?P<kind>\w+)\n)"
    r"(?P<body>.*?)(?P<tail>^```$)",
    re.DOTALL | re.MULTILINE,
)
_MASKS = [
    (re.compile(r"\w+ engine \([^)]*\), [\d.]+ s, [\d,]+ states/s, [\d,]+ MB at most"), "ENGINE, TIME"),
    (re.compile(r"\bspec [0-9a-f]{12}\b"), "spec DIGEST"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
]


def masked(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text


def render(page: str) -> str:
    """The page with its blocks renewed.

    Raises:
        LookupError: an edit, a mistake or an excerpt does not fit the files.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def renewed(block: re.Match[str]) -> str:
            body = block["body"]
            if block["kind"] == "console":
                body = _console(body, folder)
            elif block["order"] == "edit":
                old, new = _sides(body)
                replace(folder / block["what"], old, new)
            elif block["order"] == "mistake":
                body = _mistake(block["what"], folder)
            elif block["order"] == "from" and body not in (folder / block["what"]).read_text():
                raise LookupError(f"{block['what']} has no such part:\n{body}")
            return block["head"] + body + block["tail"]

        return _BLOCK.sub(renewed, page)


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    if text.count(old) != 1:
        raise LookupError(f"{file.name} has this {text.count(old)} times:\n{old}")
    file.write_text(text.replace(old, new))


def mistakes() -> dict[str, dict[str, Any]]:
    """Every seeded mistake by its file's name: file, old, new, finds."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted(MISTAKES.glob("*.yaml"))}


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command of the page as a reader would, with this Python's leasehold."""
    words = shlex.split(command)
    if words[0] == "leasehold":
        words[:1] = [sys.executable, "-m", "leasehold"]
    environment = {**os.environ, "PYTHONWARNINGS": "", "NO_COLOR": "1"}
    return subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _console(body: str, folder: Path) -> str:
    parts = re.split(r"^\$ (.*)\n", body, flags=re.MULTILINE)[1:]
    out = []
    for command, before in zip(parts[::2], parts[1::2], strict=True):
        now = run(command, folder).stdout
        now = now if not now or now.endswith("\n") else now + "\n"
        out.append(f"$ {command}\n" + (before if masked(before) == masked(now) else now))
    return "".join(out)


def _sides(diff: str) -> tuple[str, str]:
    lines = diff.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] != "+")
    return old, "".join(line[1:] for line in lines if line[0] != "-")


def _mistake(name: str, folder: Path) -> str:
    """Seeds the mistake in a fresh copy of the lease, and answers it as a diff."""
    mistake = mistakes()[name]
    shutil.rmtree(folder / LEASE, ignore_errors=True)
    made = run(f"leasehold init {LEASE} --from lease", folder)
    if made.returncode:
        raise LookupError(made.stdout)
    replace(folder / LEASE / mistake["file"], mistake["old"], mistake["new"])
    old, new = mistake["old"].splitlines(), mistake["new"].splitlines()
    lines = [f"  # {mistake['file']}"]
    lines += [("  " if line in new else "- ") + line.strip() for line in old]
    added = [line for line in new if line not in old]
    at = next((i for i, line in enumerate(lines) if line.startswith("- ")), len(lines))
    lines[at + 1 : at + 1] = [f"+ {line.strip()}" for line in added]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render(PAGE.read_text()))
