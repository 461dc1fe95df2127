"""JUnit XML: each property is a test case, for the CI systems that read it.

A violated property is a failure with its path. A property that was not contradicted, but not exhausted either, or that
could not be asked, is skipped with the reason: it has not failed, and it must not look as if it had held. So is one
that the system itself says is violated. Characters that are not printable are escaped: XML forbids some of them.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from leasehold.checker.explore.result import Exploration, Path
from leasehold.impl.words import visible, visible_lines
from leasehold.reports.trace import trace_text
from leasehold.reports.verdicts import OPEN, expectations, failures, why_open


def junit(exploration: Exploration) -> str:
    """The document, as text; write it as UTF-8."""
    system = exploration.system
    expected = expectations(exploration).violated
    failed = failures(exploration)
    skipped = sum(p.verdict in {"violated", *OPEN} for p in exploration.properties) - len(failed)
    counts = {
        "tests": str(len(exploration.properties)),
        "failures": str(len(failed)),
        "errors": "0",
        "skipped": str(skipped),
        "time": f"{exploration.seconds:.3f}",
    }
    root = ET.Element("testsuites", {"name": "leasehold", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": visible(system.name), **counts})
    facts = ET.SubElement(suite, "properties")
    for name, value in (
        ("spec_digest", system.digest),
        ("engine", exploration.engine),
        ("complete", str(exploration.complete).lower()),
        ("distinct", str(exploration.distinct)),
        ("depth", str(exploration.depth)),
    ):
        ET.SubElement(facts, "property", {"name": name, "value": visible(value)})
    for result in exploration.properties:
        case = ET.SubElement(
            suite, "testcase", {"classname": visible(system.name), "name": visible(result.name), "time": "0"}
        )
        if result in failed:
            message = result.reason or f"the {result.kind} property {result.name} is violated"
            failure = ET.SubElement(case, "failure", {"type": result.kind, "message": visible(message)})
            failure.text = visible_lines("\n".join(filter(None, (result.doc, _path(result.path)))))
        elif result.verdict == "violated":
            ET.SubElement(case, "skipped", {"message": visible(f"violated, as expected: {expected[result.name]}")})
        elif result.verdict in OPEN:
            ET.SubElement(case, "skipped", {"message": visible(why_open(exploration, result))})
    return document(root)


def document(root: ET.Element) -> str:
    """A document by its root, as text; write it as UTF-8."""
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _path(path: Path | None) -> str:
    return trace_text(path) if path is not None else "no path: nothing reaches what the property asks for"
