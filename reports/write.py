"""Writes a report: a folder of files with fixed names, and the set of files that is committed for a shipped system.

`FORMATS` maps each format to its files. Committed files must be the same wherever they are made, so they leave out
SVG drawn by `dot` (it differs between versions of Graphviz), the formats that are meant for one run of CI, and time and
memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from leasehold.checker.explore import result as steps
from leasehold.checker.explore.result import Exploration
from leasehold.reports.dot import NoSvg, product_dot, render, role_dot
from leasehold.reports.json_report import dumps, json_report
from leasehold.reports.junit import junit
from leasehold.reports.lifelines import path_svg
from leasehold.reports.markdown import markdown
from leasehold.reports.mermaid import path_mermaid, role_mermaid
from leasehold.reports.page import page
from leasehold.reports.product import product
from leasehold.reports.sarif import sarif
from leasehold.reports.trace import trace_text

Files: TypeAlias = Iterator[tuple[str, str]]
Maker: TypeAlias = Callable[[Exploration, Exploration | None, bool], Files]


def write_report(
    exploration: Exploration,
    folder: Path,
    formats: Iterable[str] | None = None,
    *,
    legal: Exploration | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Path]:
    """Writes the files of the named formats, all when none is named, and returns their paths in order.

    Args:
        exploration: what was found.
        folder: where to write; made if it is not there. Files of other names in it are left alone.
        formats: names in FORMATS.
        legal: the exploration of the same system without faults, by which reachable control states are marked.
        say: takes one line where something could not be made, such as SVG without `dot`.

    Raises:
        ValueError: a format is not known.
        OSError: a file cannot be written.
    """
    chosen = tuple(FORMATS) if formats is None else tuple(dict.fromkeys(formats))
    unknown = [name for name in chosen if name not in FORMATS]
    if unknown:
        raise ValueError(f"no such format: {', '.join(unknown)}; there are {', '.join(FORMATS)}")
    written = []
    for name in chosen:
        try:
            for path, content in FORMATS[name](exploration, legal, True):
                file = folder / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content.encode())
                written.append(file)
        except NoSvg as trouble:
            if say is not None:
                say(str(trouble))
    return written


def committed_files(
    exploration: Exploration, legal: Exploration | None = None, crashes: str = ""
) -> dict[str, bytes]:  # fmt: skip
    """The files of a report that are the same wherever they are made, by their path in the report's folder.

    With `crashes`, the name of the file with the results under crashes, the pages link it.
    """
    files = dict(named for make in COMMITTED for named in make(exploration, legal, False))
    if crashes:
        files["index.html"] = page(exploration, legal, measured=False, crashes=crashes)
        files["report.md"] = markdown(exploration, legal, crashes)
    return {path: content.encode() for path, content in files.items()}


def safe_name(words: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", words).lstrip(".") or "_"


def _paths(exploration: Exploration) -> Iterator[tuple[str, steps.Path]]:
    for result in exploration.properties:
        if result.path is not None:
            yield result.name, result.path


def _html(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    yield "index.html", page(exploration, legal, measured=measured)


def _markdown(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    yield "report.md", markdown(exploration, legal)


def _json(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    yield "report.json", dumps(json_report(exploration, legal, measured=measured))


def _dot(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    for role in exploration.system.roles.values():
        yield f"roles/{safe_name(role.name)}.dot", role_dot(role)
    if exploration.system.product:
        yield "product.dot", product_dot(product(exploration, legal))


def _mermaid(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    for role in exploration.system.roles.values():
        yield f"roles/{safe_name(role.name)}.mmd", role_mermaid(role)
    for name, path in _paths(exploration):
        yield f"paths/{safe_name(name)}.mmd", path_mermaid(path)


def _sequence(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    for name, path in _paths(exploration):
        yield f"paths/{safe_name(name)}.svg", path_svg(path, f"{exploration.system.name}: {name}")


def _trace(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    for name, path in _paths(exploration):
        yield f"paths/{safe_name(name)}.txt", trace_text(path)


def _svg(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    yield from _sequence(exploration, legal, measured)
    for path, content in _dot(exploration, legal, measured):
        yield path.removesuffix(".dot") + ".svg", render(content)


def _junit(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    yield "junit.xml", junit(exploration)


def _sarif(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    yield "report.sarif", dumps(sarif(exploration))


FORMATS: Mapping[str, Maker] = {
    "html": _html,
    "markdown": _markdown,
    "json": _json,
    "dot": _dot,
    "mermaid": _mermaid,
    "text": _trace,
    "svg": _svg,
    "junit": _junit,
    "sarif": _sarif,
}
COMMITTED: tuple[Maker, ...] = (_html, _markdown, _json, _dot, _mermaid, _trace, _sequence)
