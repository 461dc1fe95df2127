"""Small systems of alike machines that only the environment moves, for tests of claims about endless runs."""

from __future__ import annotations

import random
from pathlib import Path

from leasehold.spec import System
from tests.systems import written

STATES = ("s0", "s1", "s2")
FAIRNESS = ("false", "true", "true", "strong")


def role_by_chance(rng: random.Random, states: int, values: int) -> str:
    """A role whose machines have a state and a number; each event of theirs has one, too."""
    lines = ["role: client", f"data: {{n: {{type: int, min: 0, max: {values - 1}}}}}", "events:"]
    lines += [f"  {e}: {{fields: {{v: {{type: int, min: 0, max: {values - 1}}}}}}}" for e in ("ask", "get")]
    lines.append("states:")
    for i, state in enumerate(STATES[:states]):
        lines += [f"  {state}:", *(["    initial: true"] if i == 0 else []), "    on:"]
        ignored = []
        for event in ("ask", "get"):
            on = event == "ask" and i + 1 < states  # to the next state, so that there is a way to each
            if not on and rng.random() < 0.25:
                ignored.append(f"{event}: so it is")
                continue
            to = STATES[i + 1] if on else rng.choice(STATES[:states])
            guard = rng.choice(("", "", ", when: event.v == n", ", when: event.v != n"))
            ignored += [f"{event}: not now"] if guard else []
            change = rng.choice(("", ", set: {n: event.v}", ", set: {n: event.v}"))
            lines.append(f"      {event}: {{to: {to}{guard}{change}}}")
        if lines[-1] == "    on:":
            lines.pop()
        lines.append(f"    ignore: {{{', '.join(ignored)}}}")
    return "\n".join(lines) + "\n"


def clients_by_chance(
    folder: Path,
    rng: random.Random,
    claims: str,
    machines: int = 2,
    states: int = 2,
    values: int = 2,
    fair: tuple[str, ...] = FAIRNESS,
) -> System:
    """A system of some clients, with claims about them."""
    apart = rng.random() < 0.3  # something tells the clients apart
    when = {"ask": rng.choice(("", ', when: "it != client[0] or event.v == 0"')) if apart else "", "get": ""}
    actions = ""
    for event in ("ask", "get"):
        word = rng.choice(fair)
        each = ", fair_for_each: [v]" if word != "false" and rng.random() < 0.5 else ""
        actions += f"  {event}: {{to: client, fair: {word}{each}{when[event]}}}\n"
    return written(
        folder,
        {
            "system.yaml": f"system: clients\nroles: {{client: {{instances: {machines}}}}}\nenvironment:\n{actions}",
            "roles/client.yaml": role_by_chance(rng, states, values),
            "invariants.yaml": f"properties:\n{claims}",
        },
    )
