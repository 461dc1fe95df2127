"""What `leasehold prove` says of the shipped systems, of an example and of three from the provers' literature.

``python -m tests.benchmarks.proofs [SYSTEM...]`` proves each anew, and writes its section of reports/proofs.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leasehold.spec import SHIPPED, shipped_folder
from tests.benchmarks import page
from tests.benchmarks.measure import say

PAGE = page.PAGE.parent / "proofs.md"
TRUTH = Path(__file__).parents[1] / "truth"
EXAMPLES = Path(__file__).parents[2] / "examples"
LITERATURE = ("lock_server", "token_ring", "quorum_election")
USERS = ("mutex",)  # in examples/: those with lemmas
SYSTEMS = (*LITERATURE, *USERS, "starter", *SHIPPED)
# Seconds; else the usual.
LIMITS = {
    "quorum_election": 5.0,
    "token_ring": 5.0,
    "mutex": 2.0,
    "three_phase_commit_termination": 2.0,
}
HEAD = "# Proofs\n"
ABOUT = """
What `leasehold prove` says of the shipped systems, of the [example](../examples) mutex, and of three that the
literature of provers for distributed protocols uses as benchmarks, written here anew: a lock server, a token ring, and
an election by majorities ([tests/truth](../tests/truth)). `python -m tests.benchmarks.proofs SYSTEM` proves one
again and writes its section.
CPU seconds are those of the command with all its processes; limits are of elapsed time, so a busy machine may leave
undecided what an idle one proves.

## What is not proved, and what it would need

- **Majorities.** That no two nodes lead in one term follows from this: two sets, each of more than half of the nodes,
  have a common member. The prover knows that of sizes that are multiplied (`2 * len(votes) > nodes`), and so proves an
  election in which votes are no messages. Here the votes that a node has counted have to be those that were sent to
  it, which says of each vote that there is a message, as below.
- **Numbers of messages.** That at most one message is on its way can be said (`len(pending(grant)) <= 1`), and proves
  the lock server and the token ring over a `bag`. Other numbers are not counted.
- **That there is a message.** A step has to be shown to put it there: the solver has to find the place that the step
  has filled, and where the receiver is chosen by a condition, such as the next node of the ring, no term names that
  place. So `the_token_is_not_lost` is undecided. It would need steps that name the places that they fill.
- **Lemmas at scale.** Lemmas that are found are implications about the states and data of machines and messages. The
  lemmas of the lock server say that two things are never on their way, or in somebody's hands, at once; IC3PO, DistAI
  and SWISS find such exclusions, and the candidates here have none, so they are written. Candidates about two machines
  or two messages, and a search that is led by counterexamples to induction, would find them.
- **Faults.** Channels of the three are as in the literature, a `bag` or a `set`, for which the prover knows no faults
  but those that they declare. With `duplicate: 1` the lock server and the token ring are wrong, and the explorer
  shows it.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "systems", nargs="*", choices=SYSTEMS, metavar="SYSTEM", help=f"which; left out: {', '.join(SYSTEMS)}"
    )
    systems = parser.parse_args().systems or SYSTEMS
    page.put(PAGE, HEAD, "about", f"{ABOUT.strip()}\n\n{page.machine()}")
    for name in systems:
        proof, seconds = proved(name)
        say(f"{name}: {proof['proved']} proved, {proof['undecided']} undecided, {seconds:.1f} CPU seconds")
        page.put(PAGE, HEAD, name, section(name, proof, seconds))


def folder_of(name: str) -> Path:
    if name in USERS:
        return EXAMPLES / name
    return TRUTH / name if name in LITERATURE else shipped_folder(name)


def proved(name: str) -> tuple[dict[str, Any], float]:
    """Returns what the command says, and its CPU seconds, with those of its processes."""
    limit = ["--limit", str(LIMITS[name])] if name in LIMITS else []
    command = [sys.executable, "-m", "leasehold", "prove", str(folder_of(name)), "--fresh", "--json", *limit]
    before = _cpu()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    proof: dict[str, Any] = json.loads(done.stdout)
    return proof, _cpu() - before


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def section(name: str, proof: Mapping[str, Any], seconds: float) -> str:
    lemmas, assumptions = proof["lemmas"], proof["assumptions"]
    hold = sum(lemma["verdict"] == "proved" for lemma in lemmas)
    given = f"Lemmas: {len(lemmas)} in lemmas.yaml ({hold} of them hold), {len(proof['found_lemmas'])} found"
    return "\n".join(
        [
            f"## {name}",
            "",
            f"For {proof['for']}. Machines: {_listed(assumptions['machines'])}. Queries of at most"
            f" {assumptions['limit_seconds']:g} s. {given}; {proof['helpers']} auxiliary invariants."
            f" {seconds:.1f} CPU seconds.",
            "",
            "| property | kind | verdict | by, or why not |",
            "|---|---|---|---|",
            *(f"| `{p['name']}` | {p['kind']} | {_verdict(p)} | {_how(p)} |" for p in proof["properties"]),
            *(["", f"For the explorer alone: {_named(proof['not_asked'])}."] if proof["not_asked"] else []),
        ]
    )


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in values.items())


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _verdict(p: Mapping[str, Any]) -> str:
    return f"{p['verdict']}, but vacuous" if "vacuous" in p else str(p["verdict"])


def _how(p: Mapping[str, Any]) -> str:
    if p["verdict"] == "counterexample":
        return f"explored{' with ' + p['faults'] if p['faults'] else ' without faults'}"
    return str(p.get("vacuous") or p["method"] or p["reason"])


if __name__ == "__main__":
    main()
