"""Writes a report: a folder of files with fixed names, and the set of files that is committed for a shipped system.

`FORMATS` maps each format to its files. Committed files must be the same wherever they are made, so they leave out
SVG drawn by `dot` (it differs between versions of Graphviz), the formats that are meant for one run of CI, and time and
memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from leasehold.checker.crash.analysis import crash
from leasehold.checker.crash.unmet import explanations
from leasehold.checker.explore import explore
from leasehold.checker.explore import result as steps
from leasehold.checker.explore.result import Exploration
from leasehold.faults.model import Budget
from leasehold.reports.crash import crash_markdown, worst_svg
from leasehold.reports.dot import NoSvg, product_dot, render, role_dot
from leasehold.reports.json_report import dumps, json_report
from leasehold.reports.junit import junit
from leasehold.reports.lifelines import path_svg
from leasehold.reports.markdown import markdown
from leasehold.reports.mermaid import path_mermaid, role_mermaid
from leasehold.reports.page import page
from leasehold.reports.product import product
from leasehold.reports.readings import ReadingColumn
from leasehold.reports.sarif import sarif
from leasehold.reports.trace import trace_text
from leasehold.spec.language.load import load

Files: TypeAlias = Iterator[tuple[str, str]]
Maker: TypeAlias = Callable[[Exploration, Exploration | None, bool], Files]


def write_report(
    exploration: Exploration,
    folder: Path,
    formats: Iterable[str] | None = None,
    *,
    legal: Exploration | None = None,
    say: Callable[[str], None] | None = None,
    others: Sequence[ReadingColumn] = (),
) -> list[Path]:
    """Writes the files of the named formats, all when none is named, and returns their paths in order.

    Args:
        exploration: the exploration.
        folder: where to write; made if it is not there. Files of other names in it are left alone.
        formats: names in FORMATS.
        legal: the exploration of the same system without faults, by which reachable control states are marked.
        others: what other verbs have found, which the page and the Markdown show too.
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
            whole = WITH_OTHERS.get(name) if others else None
            made = whole(exploration, legal, others) if whole else FORMATS[name](exploration, legal, True)
            for path, content in made:
                file = folder / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content.encode())
                written.append(file)
        except NoSvg as trouble:
            if say is not None:
                say(str(trouble))
    return written


def committed_files(exploration: Exploration, legal: Exploration | None = None, crashes: str = "") -> dict[str, bytes]:
    """The files of a report that are the same wherever they are made, by their path in the report's folder.

    With `crashes`, the name of the file with the results under crashes, the pages link it.
    """
    files = dict(named for make in COMMITTED for named in make(exploration, legal, False))
    if crashes:
        files["index.html"] = page(exploration, legal, measured=False, crashes=crashes)
        files["report.md"] = markdown(exploration, legal, crashes)
    return {path: content.encode() for path, content in files.items()}


def safe_name(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".") or "_"


def _whole(name: str, make: Callable[[Exploration, Exploration | None, bool], str]) -> Maker:
    """One file about all of it."""
    return lambda exploration, legal, measured: iter([(name, make(exploration, legal, measured))])


def _of_paths(ending: str, make: Callable[[steps.Path, str], str]) -> Maker:
    """A file for each counterexample and witness; `make` takes the path and its title."""

    def made(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
        for result in exploration.properties:
            if result.path is not None:
                title = f"{exploration.system.name}: {result.name}"
                yield f"paths/{safe_name(result.name)}.{ending}", make(result.path, title)

    return made


def _dot(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    for role in exploration.system.roles.values():
        yield f"roles/{safe_name(role.name)}.dot", role_dot(role)
    if exploration.system.product:
        yield "product.dot", product_dot(product(exploration, legal))


def _mermaid(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    for role in exploration.system.roles.values():
        yield f"roles/{safe_name(role.name)}.mmd", role_mermaid(role)
    yield from _of_paths("mmd", lambda path, title: path_mermaid(path))(exploration, legal, measured)


def _svg(exploration: Exploration, legal: Exploration | None, measured: bool) -> Files:
    yield from _SEQUENCE(exploration, legal, measured)
    for path, content in _dot(exploration, legal, measured):
        yield path.removesuffix(".dot") + ".svg", render(content)


_SEQUENCE = _of_paths("svg", path_svg)
FORMATS: Mapping[str, Maker] = {
    "html": _whole("index.html", lambda exploration, legal, measured: page(exploration, legal, measured=measured)),
    "markdown": _whole("report.md", lambda exploration, legal, measured: markdown(exploration, legal)),
    "json": _whole(
        "report.json", lambda exploration, legal, measured: dumps(json_report(exploration, legal, measured=measured))
    ),
    "dot": _dot,
    "mermaid": _mermaid,
    "text": _of_paths("txt", lambda path, title: trace_text(path)),
    "svg": _svg,
    "junit": _whole("junit.xml", lambda exploration, legal, measured: junit(exploration)),
    "sarif": _whole("report.sarif", lambda exploration, legal, measured: dumps(sarif(exploration))),
}
# Those that show what other verbs have found, with it.
WITH_OTHERS: Mapping[str, Callable[[Exploration, Exploration | None, Sequence[ReadingColumn]], Files]] = {
    "html": lambda exploration, legal, others: iter([("index.html", page(exploration, legal, others=others))]),
    "markdown": lambda exploration, legal, others: iter([("report.md", markdown(exploration, legal, others=others))]),
}
COMMITTED = (*(FORMATS[name] for name in ("html", "markdown", "json", "dot", "mermaid", "text")), _SEQUENCE)


# The reports of the systems that come with Leasehold: committed, and compared with the results of the checker.

CRASHES, DRAWING = "crash.md", "worst_crash.svg"


def committed(name: str) -> dict[str, bytes]:
    """The report of a shipped system with its constants as they are declared, by path in the system's folder.

    If the system names the faults that it is checked with, the crash analysis is there, too.

    Raises:
        SpecError: there is no such system, or it is wrong.
    """
    crashes = _crashes(name)
    return {**committed_files(explore(load(name)), crashes=CRASHES if crashes else ""), **crashes}


def _crashes(name: str) -> dict[str, bytes]:
    """The crash analysis of a system under the faults that it is checked with; nothing if it names none."""
    faults = load(name).faults
    if not faults.check:
        return {}
    system = load(name, faults.settings)
    report = crash(system, Budget.parse(faults.check))
    drawn = worst_svg(report)
    text = crash_markdown(report, explanations(name, system), DRAWING if drawn is not None else "")
    files = {CRASHES: text, **({DRAWING: drawn} if drawn is not None else {})}
    return {file: content.encode() for file, content in files.items()}


def differences(folder: Path, files: dict[str, bytes]) -> Iterator[str]:
    """Says for each file in which a folder and a report differ: it is missing, is outdated, or belongs to none."""
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    for name, content in files.items():
        if name not in there:
            yield f"{folder / name}: missing"
        elif (folder / name).read_bytes() != content:
            yield f"{folder / name}: outdated"
    yield from (f"{folder / name}: no longer made" for name in sorted(there - files.keys()))


def renew(folder: Path, files: dict[str, bytes]) -> None:
    """Makes a folder hold exactly the files of a report."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
