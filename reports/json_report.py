"""The results of an exploration as JSON: for programs, for the page and for the verbs with `--json`.

A path has its first state whole, and for each step what it changed (`channels`, where they changed: all that is then
on its way); `final` is the last state, whole. `measured=False` leaves out what differs between two runs of the same
system: time and memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from leasehold.checker.explore.result import Exploration, Path, PropertyResult, Snapshot, Step
from leasehold.reports.verdicts import expectations
from leasehold.spec.language.constant import Constant
from leasehold.spec.language.model import System
from leasehold.spec.language.types import show

if TYPE_CHECKING:  # they take a while to load
    from leasehold.checker.crash.convergence import Convergence
    from leasehold.checker.prove import StoredProof


def json_report(
    exploration: Exploration,
    legal: Exploration | None = None,
    *,
    paths: bool = True,
    cells: bool = True,
    measured: bool = True,
    proof: StoredProof | None = None,
) -> dict[str, Any]:
    """The report as JSON values.

    Args:
        exploration: the exploration.
        legal: the exploration of the same system without faults, by which reachable control states are marked.
        paths: whether counterexamples and witnesses are given step by step.
        cells: whether the reachable control states of the product are listed.
        measured: whether time and memory are given.
        proof: the proofs; each property then has its strongest verdict, and beside it that of the exploration.
    """
    report = system_json(exploration.system) | {
        "product_states": exploration.product_states,
        "product_reachable": len(exploration.cells),
        **counts_json(exploration),
        "holds": exploration.holds,
    }
    if exploration.orbits is not None or exploration.why_asymmetric:
        report["symmetry"] = _symmetry(exploration)
    if exploration.checkpoint:
        report["checkpoint"] = exploration.checkpoint
    if measured:
        report |= measured_json(exploration)
    report["properties"] = [property_json(p, paths=paths, proof=proof) for p in exploration.properties]
    if proof is not None:
        report["proof"] = {"for": proof.words, "instances": "any" if proof.any_number else "as set"}
        report["proof"] |= {"any_number": proof.any_number, "faults": proof.faults, "made": proof.made}
        report["proof"]["assumptions"] = plain(proof.assumptions)
    for name, names in (
        ("unvisited_transitions", exploration.unvisited_transitions),
        ("vacuous", exploration.vacuous),
    ):
        report[name] = list(names) if exploration.complete else None
    expected = expectations(exploration)
    report["explained"] = {"violated": dict(expected.violated), "untested": dict(expected.untested)}
    if cells:
        from leasehold.reports.product import marks  # it takes a while to load

        report["product_machines"] = list(exploration.product_machines)
        report["cells"] = [
            {**picked(cell, "control states depth"), "mark": mark}
            for cell, mark in zip(exploration.cells, marks(exploration, legal), strict=True)
        ]
    return report


def plain(value: object) -> Any:
    """A value as JSON has it: a dataclass or a mapping is an object, a tuple a list."""
    if is_dataclass(value):
        return picked(value, " ".join(f.name for f in fields(value)))
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def picked(value: object, names: str) -> dict[str, Any]:
    """The attributes of a value that are named, in this order, as JSON has them."""
    return {name: plain(getattr(value, name)) for name in names.split()}


def system_json(system: System) -> dict[str, Any]:
    """The system and its constants: the head of every report."""
    return {
        "system": system.name,
        "spec_digest": system.digest,
        "constants": {name: constant_json(c) for name, c in system.constants.items()},
    }


def counts_json(exploration: Exploration) -> dict[str, Any]:
    """The figures that are the same in every run of one system."""
    return picked(exploration, "distinct generated edges depth initial cut complete why_incomplete")


def measured_json(exploration: Exploration) -> dict[str, Any]:
    """The figures that differ between two runs of one system."""
    return picked(exploration, "engine engine_reason seconds states_per_second peak_memory_bytes")


def _symmetry(exploration: Exploration) -> dict[str, Any]:
    """The instances that symmetry reduction treated as equal, and why not more, where it was asked for."""
    orbits = exploration.orbits
    return {
        "groups": [] if orbits is None else plain(orbits.groups),
        "orbits": None if orbits is None else exploration.distinct,
        "states": None if orbits is None else orbits.states,
        "why_not": list(exploration.why_asymmetric),
    }


def property_json(result: PropertyResult, *, paths: bool = True, proof: StoredProof | None = None) -> dict[str, Any]:
    """One verdict; `path` is there when there is one and it is wanted, and `failed` when a part of the claim is named.

    With a proof, `explored` is what exploring says. When it is proved, `method` is there, and `vacuous` is the reason
    where it is also proved that its antecedent is never true.
    """
    values = picked(result, "name kind verdict doc source reason")
    values |= {"binding": dict(result.binding)} if result.binding else {}
    if proof is not None:
        values |= {"verdict": proof.strongest(result), "explored": result.verdict}
        if values["verdict"] == "proved":
            values["method"] = proof.proved[result.name]
            if result.name in proof.vacuous:
                values["vacuous"] = proof.vacuous[result.name]
    if result.failed:
        values["failed"] = list(result.failed)
    if paths and result.path is not None:
        values["path"] = path_json(result.path)
    return values


def path_json(path: Path) -> dict[str, Any]:
    """`loop` is the index of the step, from 0, that an endless run returns to; null for a path that ends."""
    steps = [_step(step, before) for before, step in path.moves()]
    first, last = snapshot_json(path.initial), snapshot_json(path.final)
    return {"initial": first, "steps": steps, "loop": path.loop, "final": last}


def snapshot_json(state: Snapshot) -> dict[str, Any]:
    return picked(state, "control data channels now")


def convergence_json(after: Convergence | None) -> dict[str, Any]:
    """The figures of a convergence, all null where it was not checked."""
    names = "legal_states recovery_states other_ends converges worst_steps worst_exchanges"
    return dict.fromkeys(names.split()) if after is None else picked(after, names)


def constant_json(constant: Constant) -> bool | int | str:
    """The value of a constant: a boolean or number as it is, anything else as the language writes it."""
    value = constant.value
    return value if isinstance(value, bool | int) else show(constant.type, value)


def dumps(value: object) -> str:
    """JSON as it is written to files: indented, in the order given, with a newline at the end."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _step(step: Step, before: Snapshot) -> dict[str, Any]:
    changes = step.changes(before)
    written = picked(step, "title kind machine event fields sender transition before after sent driven")
    written |= {"data": changes["data"], "now": step.state.now}
    return written | ({"channels": changes["channels"]} if "channels" in changes else {})
