"""An independent reader of certificates: which conditions a proof must have, from the YAML of a specification alone.

It reads the files by itself, and imports nothing of the prover. It covers what two-phase commit and the lease are
written with: mailboxes, tasks that send, call and drive, actors of several roles, and a clock. It does not know the
terms: it takes the prover's word that a script says what its comment claims. Another solver shows that the script is
unsatisfiable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

INITIAL = "the initial states"


def required_conditions(folder: Path) -> dict[str, str]:
    """The conditions that a certificate of a system must have, by name, with their kinds."""
    system = _read(folder / "system.yaml")
    messages = _read(folder / "messages.yaml")["messages"]
    roles = {name: _read(folder / "roles" / f"{name}.yaml") for name in system["roles"]}
    found = {INITIAL: "initial states"}
    for name, role in roles.items():
        found |= dict.fromkeys(_transitions(name, role, system, messages), "transition")
        for state, body in role["states"].items():
            sends = (task for task in body.get("tasks", ()) if "send" in role["tasks"][task])
            found |= {f"{name}/{state}: {task} again": "message sent again" for task in sends}
    found |= {f"{message['to']} ignores {name}": "ignored message" for name, message in messages.items()}
    steps = [json.dumps(p) for p in _properties(folder).values() if "step" in p]
    if any(re.search(r"\b(pending|heard)\(", p) for p in steps):
        found |= {f"{message['to']} has {name} again": "duplicate" for name, message in messages.items()}
    assert all(channel["kind"] == "mailbox" for channel in system["channels"].values())
    found |= {f"{name} loses a message": "loss" for name in system["channels"]}
    actors = system.get("actors", {})
    together = {role for names in actors.values() for role in names}
    for actor in (*actors, *(name for name in roles if name not in together)):
        found |= {f"{actor} crashes": "crash", f"{actor} recovers": "recovery"}
        found[f"{actor} crashes again"] = "crash in recovery"
        if any(re.search(r"\btook\(\w+\)", p) for p in steps) and any("running(" in p for p in steps):
            found[f"{actor} halts"] = "halt"
    return found | ({"time passes": "time"} if "clock" in system else {})


def _transitions(
    name: str, role: Mapping[str, Any], system: Mapping[str, Any], messages: Mapping[str, Any]
) -> Iterator[str]:
    """Every alternative of every event that comes by itself; what a parent drives is part of the parent's step."""
    received = {message for message, ends in messages.items() if ends["to"] == name}
    outside = {given.get("event", known) for known, given in system["environment"].items() if given["to"] == name}
    answers = {event for task in role.get("tasks", {}).values() for event in task.get("answers", ())}
    for state, body in role["states"].items():
        for event, ways in body.get("on", {}).items():
            if event in received | outside | answers | {"tick"}:
                count = len(ways) if isinstance(ways, list) else 1
                yield from (f"{name}/{state}#{event}" + (f".{n}" if n > 1 else "") for n in range(1, count + 1))


def required_claims(folder: Path) -> tuple[set[str], set[str]]:
    """The claims about states and about steps that must be proved: properties and lemmas, but for those about liars."""
    declared = _properties(folder) | _read(folder / "lemmas.yaml")["lemmas"]
    honest = {n: p for n, p in declared.items() if "byzantine" not in json.dumps(p)}
    return {n for n, p in honest.items() if "always" in p}, {n for n, p in honest.items() if "step" in p}


def _properties(folder: Path) -> dict[str, Any]:
    return dict(_read(folder / "invariants.yaml")["properties"])


def missing(folder: Path, index: Mapping[str, Any], text: str) -> list[str]:
    """What a certificate lacks, in words.

    Args:
        folder: of the specification.
        index: of the certificate.
        text: the certificate itself.
    """
    found, wanted = {c["name"]: c for c in index["conditions"]}, required_conditions(folder)
    lacks = [f"no condition: {name}" for name in wanted if name not in found]
    lacks += [f"a condition that is not asked for: {name}" for name in found if name not in wanted]
    lacks += [f"another kind: {name}" for name, kind in wanted.items() if name in found and found[name]["kind"] != kind]
    states, steps = required_claims(folder)
    invariant = {c["name"] for c in index["claims"] if c["about"] == "states"}  # with the prover's auxiliary ones
    lacks += [f"no claim: {name}" for name in sorted(states - invariant)]
    for name, condition in found.items():
        after = {*condition["establishes"], *condition["unchanged"]}
        # A duplicate is a loss, and a message sent again; halting is a crash. These have conditions of their own.
        needed = set() if condition["kind"] in ("duplicate", "halt") and condition["composite"] else invariant
        lacks += [f"{name} does not establish {claim}" for claim in sorted(needed - after)]
        lacks += [f"{name} uses {claim}" for claim in sorted(set(condition["uses"]) - invariant)]
        if name != INITIAL:
            lacks += [f"{name} does not establish {c}" for c in sorted(steps - {*condition["establishes_of_step"]})]
    headings = re.findall(r"^; Condition (\d+), ([^:]+): (.*)$", text, re.MULTILINE)
    if headings != [(str(c["number"]), c["kind"], c["name"]) for c in index["conditions"]]:
        lacks.append("the index and the scripts differ")
    if len(re.findall(r"^\(check-sat\)$", text, re.MULTILINE)) != len(headings):
        lacks.append("not one script for each condition")
    return lacks


def _read(file: Path) -> Any:
    return yaml.load(file.read_text(), yaml.BaseLoader)  # texts alone: for YAML 1.1, `on` is a truth value
