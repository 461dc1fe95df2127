"""Finds headless docstrings: each begins with a verb, or with a noun that has its own head.

``python -m tests.style.docstrings [FILE or FOLDER ...]`` prints place and text of each that does not, and returns 1.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "src" / "leasehold"  # which has a link to each shipped folder
# A clause or a phrase that begins with one of these hangs on a noun that is not there.
HEADLESS = frozenset(
    {
        "as",
        "by",
        "for",
        "from",
        "how",
        "if",
        "in",
        "of",
        "so",
        "than",
        "that",
        "this",
        "those",
        "what",
        "when",
        "where",
        "whether",
        "which",
        "while",
        "who",
        "whose",
        "why",
    }
)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def headless(text: str) -> bool:
    """Returns whether a docstring begins with a word that needs a noun before it."""
    words = text.split(maxsplit=1)
    return bool(words) and words[0].lower().rstrip(",:") in HEADLESS


def found_in(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the first line of text of each headless docstring of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)) and headless(text):
            yield node.body[0].lineno, text.splitlines()[0]


def files(places: Sequence[str]) -> Iterator[Path]:
    """Yields the Python files at some places, folders with all that is in them; by default all that are shipped."""
    for path in [ROOT / place for place in places] or [link.resolve() for link in sorted(SHIPPED.iterdir())]:
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.suffix == ".py" else []


def main(places: Sequence[str]) -> int:
    """Prints what is found and returns the exit code."""
    found = [(path, *one) for path in files(places) for one in found_in(path.read_text(encoding="utf-8"))]
    for path, line, text in found:
        print(f"{path.relative_to(ROOT)}:{line}: headless docstring: {text}")
    print(f"headless docstrings: {len(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
