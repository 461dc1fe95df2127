"""JUnit XML: each property is a test case, for the CI systems that read it.

A violated property is a failure with its path. A property that was not contradicted, but not exhausted either, or that
could not be asked, is skipped with the reason: it has not failed, and it must not look as if it had held. So is one
that the system itself says is violated. Characters that are not printable are escaped: XML forbids some of them.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leasehold.checker.explore.result import Exploration, Path, PropertyResult
from leasehold.impl.words import visible, visible_lines
from leasehold.reports.trace import trace_text
from leasehold.reports.verdicts import OPEN, expectations, failures, why_open


@dataclass(frozen=True, slots=True)
class JunitCase:
    """A test case.

    Attributes:
        name: of what is tested.
        failed: what has failed, in a line; empty: nothing has.
        kind: the kind of the failure.
        text: more about it.
        skipped: why it was not decided; empty: it was.
    """

    name: str
    failed: str = ""
    kind: str = ""
    text: str = ""
    skipped: str = ""


def junit(exploration: Exploration) -> str:
    """The document on an exploration, as text; write it as UTF-8."""
    facts = {
        "spec_digest": exploration.system.digest,
        "engine": exploration.engine,
        "complete": str(exploration.complete).lower(),
        "distinct": exploration.distinct,
        "depth": exploration.depth,
    }
    cases = [_case(exploration, result) for result in exploration.properties]
    return junit_document("leasehold", exploration.system.name, facts, cases, exploration.seconds)


def _case(exploration: Exploration, result: PropertyResult) -> JunitCase:
    if result in failures(exploration):
        message = result.reason or f"the {result.kind} property {result.name} is violated"
        text = "\n".join(filter(None, (result.doc, _path(result.path))))
        return JunitCase(result.name, message, result.kind, text)
    if result.verdict == "violated":
        expected = expectations(exploration).violated[result.name]
        return JunitCase(result.name, skipped=f"violated, as expected: {expected}")
    return JunitCase(result.name, skipped=why_open(exploration, result) if result.verdict in OPEN else "")


def junit_document(
    verb: str, system: str, facts: Mapping[str, object], cases: Sequence[JunitCase], seconds: float
) -> str:
    """A document with one suite, as text; write it as UTF-8.

    Args:
        verb: the name of all.
        system: that of the suite.
        facts: of the suite, by name.
        cases: in their order.
        seconds: the time that they took.
    """
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(bool(case.failed) for case in cases)),
        "errors": "0",
        "skipped": str(sum(bool(case.skipped) for case in cases)),
        "time": f"{seconds:.3f}",
    }
    root = ET.Element("testsuites", {"name": verb, **counts})
    suite = ET.SubElement(root, "testsuite", {"name": visible(system), **counts})
    properties = ET.SubElement(suite, "properties")
    for name, value in facts.items():
        ET.SubElement(properties, "property", {"name": name, "value": visible(str(value))})
    for case in cases:
        names = {"classname": visible(system), "name": visible(case.name), "time": "0"}
        testcase = ET.SubElement(suite, "testcase", names)
        if case.failed:
            failure = ET.SubElement(testcase, "failure", {"type": case.kind, "message": visible(case.failed)})
            failure.text = visible_lines(case.text)
        elif case.skipped:
            ET.SubElement(testcase, "skipped", {"message": visible(case.skipped)})
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _path(path: Path | None) -> str:
    return trace_text(path) if path is not None else "no path: nothing reaches what the property asks for"
