"""SARIF 2.1.0: violated properties and the loader's findings, located in the specification's files.

A violated property carries its path as a code flow, so that a viewer walks through the transitions of the YAML files.
A property that was cut short, or could not be asked, is open, and one that expected.yaml expects to be violated is
suppressed. Files stand as the user named them; an absolute path becomes a file URI.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import leasehold
from leasehold.checker.explore.result import Exploration, Path, PropertyResult, Step
from leasehold.reports.verdicts import OPEN, expectations, why_open
from leasehold.spec.language.diagnostics import NOWHERE, Diagnostic, Place, codes
from leasehold.spec.language.model import System

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(exploration: Exploration) -> dict[str, Any]:
    """The log of an exploration: its violations, and the warnings that loading the system gave."""
    system = exploration.system
    results = [_diagnostic(d) for d in system.warnings]
    rules = _diagnostic_rules(system.warnings)
    places = {t.name: t.place for role in system.roles.values() for t in role.transitions()}
    for property_result in exploration.properties:
        if property_result.verdict not in {"violated", *OPEN}:
            continue
        rules[f"property/{property_result.name}"] = _rule(
            f"property/{property_result.name}", property_result.doc or property_result.name
        )
        results.append(_property(system, exploration, property_result, places))
    return _log(rules, results)


def diagnostics_sarif(diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    """The log of a specification that could not be loaded, or of a lint."""
    listed = tuple(diagnostics)
    return _log(_diagnostic_rules(listed), [_diagnostic(d) for d in listed])


def _log(rules: Mapping[str, dict[str, Any]], results: list[dict[str, Any]]) -> dict[str, Any]:
    order = {name: i for i, name in enumerate(rules)}
    for result in results:
        result["ruleIndex"] = order[result["ruleId"]]
    driver = {
        "name": "leasehold",
        "semanticVersion": leasehold.__version__,
        "rules": list(rules.values()),
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str, text: str) -> dict[str, Any]:
    return {"id": name, "shortDescription": {"text": text}}


def _diagnostic_rules(diagnostics: Iterable[Diagnostic]) -> dict[str, dict[str, Any]]:
    return {code: _rule(code, codes()[code]) for code in sorted({d.code for d in diagnostics})}


def _diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    text = diagnostic.what
    if diagnostic.near:
        text += f"; did you mean {diagnostic.near}?"
    if diagnostic.remedy:
        text += f"; remedy: {diagnostic.remedy}"
    return {
        "ruleId": diagnostic.code,
        "level": diagnostic.severity,
        "message": {"text": text},
        **_located(diagnostic.place),
        **_fingerprint(diagnostic.code, diagnostic.place.file, diagnostic.what),
    }


def _property(
    system: System, exploration: Exploration, property_result: PropertyResult, places: Mapping[str, Place]
) -> dict[str, Any]:
    declared = system.properties.get(property_result.name)
    place = declared.place if declared is not None else _system_place(system)
    result: dict[str, Any] = {"ruleId": f"property/{property_result.name}"}
    if property_result.verdict == "violated":
        reason = property_result.reason or "violated"
        result |= {"level": "error", "message": {"text": f"{property_result.name}: {reason}"}}
    else:
        text = f"{property_result.name}: {why_open(exploration, property_result)}"
        result |= {"level": "none", "kind": "open", "message": {"text": text}}
    expected = expectations(exploration).violated
    if property_result.verdict == "violated" and property_result.name in expected:
        result["suppressions"] = [
            {"kind": "external", "justification": f"expected.yaml: {expected[property_result.name]}"}
        ]
    result |= _located(place)
    result |= _fingerprint(f"property/{property_result.name}", system.name, property_result.verdict)
    if property_result.path is not None and property_result.path.steps:
        result["codeFlows"] = [_flow(property_result.path, places, place)]
    return result


def _flow(path: Path, places: Mapping[str, Place], otherwise: Place) -> dict[str, Any]:
    def location(number: int, step: Step) -> dict[str, Any]:
        place = places.get(step.transition or "", otherwise)
        where = _location(place) or {}
        return {
            "executionOrder": number,
            "location": {**where, "message": {"text": step.title}},
            "state": {machine: {"text": state} for machine, state in step.state.control.items()},
        }

    return {"threadFlows": [{"locations": [location(i, step) for i, step in enumerate(path.steps, 1)]}]}


def _system_place(system: System) -> Place:
    """Returns the place of what no file declares, such as freedom from deadlock: the first line of a known file."""
    known = [p.place for p in system.properties.values()] + [r.place for r in system.roles.values()]
    return next((Place(place.file) for place in known if place != NOWHERE), NOWHERE)


def _located(place: Place) -> dict[str, Any]:
    location = _location(place)
    return {"locations": [location]} if location else {}


def _location(place: Place) -> dict[str, Any] | None:
    """None for what stands in no file: a setting of the call."""
    if place.file == NOWHERE.file:
        return None
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(place.file)},
            "region": {"startLine": max(place.line, 1), "startColumn": max(place.column, 1)},
        }
    }


def _uri(file: str) -> str:
    path = PurePosixPath(file)
    return path.as_uri() if path.is_absolute() else quote(str(path))


def _fingerprint(*parts: str) -> dict[str, Any]:
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
    return {"partialFingerprints": {"leasehold/v1": digest}}
