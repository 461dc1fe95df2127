"""An independent reader of certificates: which conditions a proof must have, from the YAML of a specification alone.

It reads the files by itself, and imports nothing of the prover; only the digest is that of the loaded specification. It
covers what two-phase commit and the lease are written with: mailboxes, tasks that send, call and drive, actors of
several roles, and a clock. Of the scripts it reads which claims they assert and which they show, that each claim is the
same formula in all of them, that a claim called unchanged is unchanged, and which states and messages a step is about.
It does not read guards, updates and claims further: it takes the prover's word for the rest of the terms. Another
solver shows that the script is unsatisfiable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from leasehold.spec import load
from tests.checker.prove.script_reader import Script, Terms, read

INITIAL = "the initial states"


def required_conditions(folder: Path) -> dict[str, str]:
    """The conditions that a certificate of a system must have, by name, with their kinds."""
    system = _read(folder / "system.yaml")
    messages = _read(folder / "messages.yaml")["messages"]
    roles = {name: _role(folder, name) for name in system["roles"]}
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
    return found | ({"time passes": "time"} if "clock" in system else {})


def _transitions(
    name: str, role: Mapping[str, Any], system: Mapping[str, Any], messages: Mapping[str, Any]
) -> Iterator[str]:
    """Every alternative of every event that comes by itself; what a parent drives is part of the parent's step."""
    received = {message for message, ends in messages.items() if ends["to"] == name}
    outside = {given.get("event", known) for known, given in system["environment"].items() if given["to"] == name}
    answers = {event for task in role.get("tasks", {}).values() for event in task.get("answers", ())}
    on = {state: dict(body.get("on", {})) for state, body in role["states"].items()}
    for shared in role.get("shared", ()):
        for state in shared["in"]:
            on[state] |= shared["on"]
    for state, events in on.items():
        for event, ways in events.items():
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
    """Returns what a certificate lacks, in words.

    Args:
        folder: of the specification.
        index: of the certificate.
        text: the certificate itself.
    """
    found, wanted = {c["name"]: c for c in index["conditions"]}, required_conditions(folder)
    system, digest = _read(folder / "system.yaml")["system"], load(folder).digest
    lacks = (
        [] if (index["system"], index["spec_digest"]) == (system, digest) else ["the index is of another specification"]
    )
    if not text.startswith(f"; {system}, specification {digest}:"):
        lacks.append("the scripts are of another specification")
    lacks += [f"no condition: {name}" for name in wanted if name not in found]
    lacks += [f"a condition that is not asked for: {name}" for name in found if name not in wanted]
    lacks += [f"another kind: {name}" for name, kind in wanted.items() if name in found and found[name]["kind"] != kind]
    states, steps = required_claims(folder)
    invariant = {c["name"] for c in index["claims"] if c["about"] == "states"}  # with the prover's auxiliary ones
    lacks += [f"no claim: {name}" for name in sorted(states - invariant)]
    for name, condition in found.items():
        after = {*condition["establishes"], *condition["unchanged"]}
        # A duplicate is a loss, and a message sent again, which have conditions of their own.
        needed = set() if condition["kind"] == "duplicate" and condition["composite"] else invariant
        lacks += [f"{name} does not establish {claim}" for claim in sorted(needed - after)]
        lacks += [f"{name} uses {claim}" for claim in sorted(set(condition["uses"]) - invariant)]
        if name != INITIAL:
            lacks += [f"{name} does not establish {c}" for c in sorted(steps - {*condition["establishes_of_step"]})]
    headings = re.findall(r"^; Condition (\d+), ([^:]+): (.*)$", text, re.MULTILINE)
    if headings != [(str(c["number"]), c["kind"], c["name"]) for c in index["conditions"]]:
        lacks.append("the index and the scripts differ")
    if len(re.findall(r"^\(check-sat\)$", text, re.MULTILINE)) != len(headings):
        lacks.append("not one script for each condition")
    return lacks + _header(folder, index, text) + _contents(folder, index, text)


def _header(folder: Path, index: Mapping[str, Any], text: str) -> list[str]:
    """Returns what is wrong with the comments of a certificate: they must say what the index says."""
    said, system = index["assumptions"], _read(folder / "system.yaml")
    header, _, _ = text.partition(";\n")
    lines = [
        f"Faults: {index['faults']}.",
        *(
            f"{kind}: {', '.join(f'{n} {words}' for n, words in said[kind].items())}"
            for kind in ("machines", "constants")
        ),
        f"assumed: {'; '.join(said['assumed'])}",
    ]
    lacks = [f"the header does not say: {line}" for line in lines if f"; {line}\n" not in f"{header}"]
    if index["faults"] != "any number of crashes and losses, duplicates and overtaking" or said["faults_left_out"]:
        lacks.append("not all faults are in it")
    for name, role in system["roles"].items():
        if (role or {}).get("instances", "") in system.get("constants", {}) and "any number" not in said["machines"][
            name
        ]:
            lacks.append(f"it is not for any number of {name} machines")
    titles = {
        "establishes": "establishes, of the state",
        "establishes_of_step": "establishes, of the step",
        "unchanged": "unchanged by the step",
        "uses": "uses, of the state before",
    }
    for condition in index["conditions"]:
        said_of = [f"; {title}: {', '.join(condition[key])}\n" for key, title in titles.items() if condition[key]]
        heading = f"; Condition {condition['number']}, {condition['kind']}: {condition['name']}\n"
        comments, _, _ = text.partition(heading)[2].partition("(set-logic")
        lacks += [f"{condition['name']}: the comments differ" for line in said_of if line not in comments]
    names = [condition["name"] for condition in index["conditions"]]
    return lacks + [f"{name} has two conditions" for name in sorted({n for n in names if names.count(n) > 1})]


def _contents(folder: Path, index: Mapping[str, Any], text: str) -> list[str]:
    """Returns what is wrong with the scripts of a certificate."""
    terms, conditions = Terms(), index["conditions"]
    texts = text.split("(reset)\n")
    scripts = [read(terms, part) for part in texts[:-1]]
    if len(scripts) != len(conditions) or not scripts or texts[-1].strip():
        return ["not one script for each condition"]
    first = scripts[0]
    formulas = {name.removeprefix("before "): n for name, n in first.defined.items() if name.startswith("before ")}
    lacks = [f"{claim} does not speak of {word}" for claim, word in _unspoken(folder, terms, formulas)]
    of_steps = [n for s in scripts for name, n in s.defined.items() if name.startswith("of the step ")]
    if of_steps and not any(leaf.startswith("t.") for leaf in terms.leaves(*of_steps)):
        lacks.append("the claims about steps do not speak of the state after")
    for condition, script in zip(conditions, scripts, strict=True):
        wrong = [*script.wrong, *_claims(condition, script, formulas)]
        wrong += ["has other constants"] if script.values("constants ") != first.values("constants ") else []
        wrong += [f"{n} has other members" for n, m in script.members.items() if first.members.get(n, m) != m]
        wrong += (
            ["has an axiom that is not about sizes, sums or the least and greatest"]
            if not all(
                any(re.match("(size|sum|best)!", leaf) for leaf in terms.leaves(n)) for n in script.values("axiom ")
            )
            else []
        )
        wrong += wrong_step(folder, condition, script)
        lacks += [f"{condition['name']}: {words}" for words in wrong]
    return lacks


def _claims(condition: Mapping[str, Any], script: Script, formulas: Mapping[str, int]) -> Iterator[str]:
    """Yields what is wrong with the claims that a script has as assertions, and those that it shows."""
    initial = condition["name"] == INITIAL
    assumed = [name.removeprefix("before ") for name in script.asserted if name.startswith("before ")]
    others = [n for n in script.asserted if not re.match(r"(constants|guard|axiom|before) ", n)]
    if sorted(assumed) != sorted(condition["uses"]) or others:
        yield "asserts other claims than it says"
    wanted = [f"{'before' if initial else 'after'} {name}" for name in condition["establishes"]]
    wanted += [f"of the step {name}" for name in condition["establishes_of_step"]]
    wanted += [f"side condition: {words}" for words in condition["side_conditions"]]
    if sorted(script.goals) != sorted(wanted):
        yield "shows other claims than it says"
    for name, number in script.defined.items():
        kind, _, claim = name.partition(" ")
        if kind == "before" and formulas.get(claim) != number:
            yield f"{name} is another formula than in the initial states"
        if kind == "after" and (claim not in formulas or script.terms.renamed(formulas[claim], "s.", "t.") != number):
            yield f"{name} is another formula than in the initial states"
    # Where a step does more than claims about states are asked after, claims about steps are of all that it does.
    part = "t." if any(name.startswith("w.") for name in script.defined) else "w."
    for name in script.goals:
        leaves = script.terms.leaves(script.defined.get(name, 0)) if name.startswith("of the step ") else ()
        if any(leaf.startswith(part) for leaf in leaves):
            yield f"{name} is not of the whole step"
    for claim in condition["unchanged"]:
        read_of = (
            {leaf for leaf in script.terms.leaves(formulas[claim]) if leaf.startswith("s.")}
            if claim in formulas
            else {"?"}
        )
        if not all(script.is_same(f"t.{leaf[2:]}") for leaf in read_of):
            yield f"{claim} is not unchanged"


def _unspoken(folder: Path, terms: Terms, formulas: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Claims of the specification whose formulas do not have a control state that their text has."""
    system = _read(folder / "system.yaml")
    roles = {name: _role(folder, name) for name in system["roles"]}
    states = {state for role in roles.values() for state in role["states"]}
    declared = _properties(folder) | _read(folder / "lemmas.yaml")["lemmas"]
    for name, number in formulas.items():
        words = json.dumps([declared.get(name, {}).get(key, "") for key in ("when", "always")])
        said = {re.sub(r"!\w+$", "", leaf) for leaf in terms.leaves(number)}
        compared = {word for pair in re.findall(r"state (?:==|!=) (\w+)", words) for word in [pair] if word in states}
        yield from ((name, word) for word in sorted(compared - said))


def wrong_step(folder: Path, condition: Mapping[str, Any], script: Script) -> list[str]:
    """Returns what is wrong with a script's step: the states and messages that it is about, and what it changes."""
    system, messages = _read(folder / "system.yaml"), _read(folder / "messages.yaml")["messages"]
    terms, name = script.terms, condition["name"]
    parts = [part for n in script.values("guard ") for part in terms.conjuncts(n)]
    equal = set()
    for part in parts:
        if terms.nodes[part][0] == "app" and terms.head(part) == "=":
            a, b = (terms.head(side) for side in terms.nodes[part][2:])
            equal |= {(a, re.sub(r"!\w+$", "", b)), (b, re.sub(r"!\d+$", "", a))}
    channels = {(c["from"], c["to"]): channel for channel, c in system["channels"].items()}
    lacks = ["contradicts itself"] if any(terms.nodes[part] == ("false",) for part in parts) else []

    def is_about(message: str) -> bool:
        ends = messages[message]["from"], messages[message]["to"]
        return (f"s.kind.{channels[ends]}", message) in equal

    changed = {n for n in script.defined if n.startswith("t.") and not script.is_same(n)}
    kind = condition["kind"]
    if kind in ("transition", "message sent again"):
        role, state = re.match(r"(\w+)/(\w+)", name).groups()  # type: ignore[union-attr]
        lacks += [] if (f"s.state.{role}", state) in equal else [f"is not a step of {role} in {state}"]
    if kind == "transition":
        event, _, number = name.partition("#")[2].partition(".")
        received = event in messages and messages[event]["to"] == role
        lacks += [f"does not take {event}"] if received and not is_about(event) else []
        lacks += ["takes a message"] if not received and any(a.startswith("s.kind.") for a, _ in equal) else []
        body = _role(folder, role)
        ways = body["states"][state]["on"][event]
        way = (ways if isinstance(ways, list) else [ways])[int(number or 1) - 1]
        to = state if "stay" in way else way["to"]
        after = {re.sub(r"!\w+$", "", leaf) for leaf in terms.leaves(script.defined.get(f"t.state.{role}", 0))}
        stays = script.is_same(f"t.state.{role}")
        lacks += [f"does not go to {to}"] if to not in after and not (to == state and stays) else []
        lacks += [f"goes elsewhere than to {to}"] if to == state and after & body["states"].keys() - {to} else []
        for data in way.get("set", {}):
            lacks += [f"does not set {data}"] if f"t.data.{role}.{data.partition('[')[0]}" not in changed else []
        read_of = terms.leaves(*parts)
        for data in re.findall(r"(?<![.\w])[a-z_]+\b(?![(.])", str(way.get("when", ""))):
            known = data in body.get("data", {})
            lacks += [f"does not look at {data}"] if known and f"s.data.{role}.{data}" not in read_of else []
    elif kind in ("ignored message", "duplicate"):
        event = name.removesuffix(" again").rpartition(" ")[2]
        lacks += [] if is_about(event) else [f"does not take {event}"]
    elif kind == "loss":
        channel = name.partition(" ")[0]
        lacks += [] if changed == {f"t.present.{channel}"} else [f"does not lose a message of {channel}"]
    elif kind in ("crash", "recovery", "crash in recovery"):
        up = f"s.up.{name.partition(' ')[0]}"
        heads = {terms.head(part) for part in parts}
        down = {terms.head(terms.nodes[part][2]) for part in parts if terms.head(part) == "not"}
        lacks += [f"begins with {up[5:]} otherwise"] if up not in (heads if kind == "crash" else down) else []
        again = any(head.startswith("again!") for head in heads)
        lacks += ["is another kind of recovery"] if again != (kind == "crash in recovery") else []
    elif kind == "time":
        lacks += [] if "t.now" in changed else ["does not let time pass"]
    return lacks


def _role(folder: Path, name: str) -> Any:
    """A role, each of whose states has the transitions that it shares with others."""
    role = deepcopy(_read(folder / "roles" / f"{name}.yaml"))
    for shared in role.get("shared", ()):
        for state in shared["in"]:
            body = role["states"][state]
            body["on"] = {**shared["on"], **body.get("on", {})}
    return role


@lru_cache
def _read(file: Path) -> Any:
    return yaml.load(file.read_text(), yaml.BaseLoader)  # texts alone: for YAML 1.1, `on` is a truth value
