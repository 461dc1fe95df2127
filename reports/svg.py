"""SVG of a DOT text, by the `dot` program where it is installed."""

from __future__ import annotations

import shutil
import subprocess

import graphviz

HOW_TO_GET_SVG = "no SVG of graphs: the dot program is not installed (get Graphviz, for example: apt install graphviz)"


class NoSvg(Exception):
    """`dot` is missing or does not work; the message is one line that says what to do."""


def has_dot() -> bool:
    return shutil.which("dot") is not None


def render(dot: str) -> str:
    """The SVG of a DOT text.

    Raises:
        NoSvg: the dot program is missing or failed. The DOT text itself is as good as ever.
    """
    try:
        return str(graphviz.Source(dot).pipe(format="svg", encoding="utf-8"))
    except graphviz.ExecutableNotFound as error:
        raise NoSvg(HOW_TO_GET_SVG) from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip().splitlines()
        raise NoSvg(
            f"no SVG of graphs: dot failed with {error.returncode}: {said[-1] if said else 'no word'}"
        ) from error
