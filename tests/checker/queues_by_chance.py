"""Small systems by chance whose clients stand in the lines of their servers."""

from __future__ import annotations

import random
import re
from pathlib import Path

from leasehold.spec import SpecError, System
from tests.systems import written

BACK = ("fifo(1)", "fifo", "mailbox", "bag(2)", "queue(1)", "queue")
GUARDS = ("msg.v", "not msg.v", "bit", "not bit", "who == msg.sender", "who != msg.sender", "msg.v == bit")
MESSAGES = "messages:\n  ask: {from: client, to: server, fields: {v: bool}}\n  note: {from: client, to: server}\n"
TELL = "  tell: {from: server, to: client, fields: {v: bool}, answer: true}\n"
CLAIMS = """properties:
  first_asks: {always: "all(m.kind == ask for m in pending(up) if m.number == 1)"}
  first_is_last: {always: "all(m.number == 1 for m in pending(up) if m.sender == client[0])"}
  notes_behind: {always: "all(not in_line(m, n) or m.number < n.number for m in pending(ask) for n in pending(note))"}
  notes_first: {always: "all(not in_line(m, n) or m.number > n.number for m in pending(ask) for n in pending(note))"}
  apart: {always: "all(not in_line(m, n) or m.number != n.number for m in pending(ask) for n in pending(note))"}
  counted: {always: "all(m.number <= len(up) for m in pending(up))"}
  few: {always: len(up) <= 2}
  few_of_each: {always: "all(count(m.sender == c for m in pending(up)) <= 1 for c in client)"}
  sender_waits: {always: "all(m.sender.state != s0 for m in pending(ask))"}
  no_twins: {always: "all(m != n or m.number == n.number for m in pending(ask) for n in pending(ask))"}
  all_heard: {always: heard(up) or len(up) > 0}
  takes_the_first: {when: took(server.note), step: "old(all(m.kind == note for m in pending(up) if m.number == 1))"}
  served: {when: len(up) > 0, leads_to: len(up) == 0}
  both: {sometimes: "any(m.sender != n.sender for m in pending(up) for n in pending(up))"}
  bounded: {sometimes: "any(m.number == 3 for m in pending(up))"}
"""


def queues_by_chance(folder: Path, rng: random.Random) -> System | None:
    """A small system of two or three clients and one or two servers; None where the loader does not take it."""
    clients, servers = rng.choice((2, 2, 2, 3)), rng.choice((1, 1, 2))
    kind, back = rng.choice(("queue", "queue(1)", "queue(2)", "queue(2)", "queue(3)")), rng.choice(BACK)
    budgets = "".join(
        f", {f}: {rng.choice(('1', '1', 'any'))}" for f in ("lose", "duplicate", "reorder") if rng.random() < 0.25
    )
    to = rng.choice(("server", "server", "'server[0]'", "'server[index(self)]'"))
    answers = rng.random() < 0.7
    states, served = rng.choice((2, 3)), rng.choice((1, 2))

    def client() -> str:
        lines = [
            "role: client",
            "data: {n: {type: int, min: 0, max: 2}, bit: bool}",
            "events: {go: it goes on}",
            "states:",
        ]
        for i in range(states):
            tasks = ["ask_on_entry"] if i and rng.random() < 0.4 else []
            lines += [
                f"  s{i}:",
                *(["    initial: true"] if not i else []),
                f"    tasks: [{', '.join(tasks)}]",
                "    on:",
            ]
            both = (", also: [note, ask]", ", also: [ask, note]")
            also = rng.choice(both if not i else (", also: ask", ", also: note", "", *both))
            if kind == "queue(1)":  # there is no room for both
                also = (", also: ask", ", also: note")[i % 2]
            change = rng.choice(("", ", bit: not bit"))
            to_state = f"s{i + 1}" if i + 1 < states else f"s{rng.randrange(states)}"
            lines.append(f"      go: {{to: {to_state}, when: n < 2, set: {{n: n + 1{change}}}{also}}}")
            ignored = ["go: it has had enough"]
            if answers and rng.random() < 0.6:
                lines.append(f"      tell: {{to: s{rng.randrange(states)}{rng.choice(('', ', set: {bit: msg.v}'))}}}")
            elif answers:
                ignored.append("tell: so it is")
            lines.append(f"    ignore: {{{', '.join(ignored)}}}")
        sends = {"ask": "ask", "note": "note", "ask_on_entry": "ask"}
        text = "\n".join(lines)
        lines.append("tasks:")
        for task, message in sends.items():
            if re.search(rf"(also: |\[|, ){task}\b", text):
                content = {"ask": ", with: {v: bit}", "ask_on_entry": ", with: {v: not bit}"}.get(task, "")
                lines.append(f"  {task}: {{send: {message}, to: {to}{content}}}")
        return "\n".join(lines) + "\n"

    def server() -> str:
        lines = ["role: server", "data: {bit: bool, who: client}", "states:"]
        for i in range(served):
            lines += [f"  t{i}:", *(["    initial: true"] if not i else []), "    on:"]
            ignored = []
            for event in ("ask", "note"):
                told = answers and not i and event == "ask"
                if rng.random() < 0.15 and not told:
                    ignored.append(f"{event}: it waits")
                    continue
                guards = [g for g in GUARDS if event == "ask" or "msg.v" not in g]
                guard = f', when: "{rng.choice(guards)}"' if rng.random() < 0.4 else ""
                ignored += [f"{event}: not now"] if guard else []
                change = rng.choice(("", ", set: {who: msg.sender}", ", set: {bit: not bit, who: msg.sender}"))
                also = ", also: tell" if told or (answers and rng.random() < 0.5) else ""
                lines.append(f"      {event}: {{to: t{(i + 1) % served}{guard}{change}{also}}}")
            if lines[-1] == "    on:":
                lines.pop()
            lines.append(f"    ignore: {{{', '.join(ignored)}}}")
        lines += ["tasks:", "  tell: {send: tell, to: msg.sender, with: {v: bit}}"] if answers else []
        return "\n".join(lines) + "\n"

    files = {
        "system.yaml": f"""system: queues
constants: {{clients: {{type: int, value: {clients}, min: 1}}}}
roles: {{client: {{instances: clients}}, server: {{instances: {servers}}}}}
channels:
  up: {{from: client, to: server, kind: {kind}{budgets}}}
{f"  back: {{from: server, to: client, kind: {back}}}" if answers else ""}
definitions: {{"in_line(m, n)": m.receiver == n.receiver}}
environment: {{go: {{to: client, fair: {rng.choice(("true", "false"))}}}}}
""",
        "messages.yaml": MESSAGES + (TELL if answers else ""),
        "roles/client.yaml": client(),
        "roles/server.yaml": server(),
        "invariants.yaml": CLAIMS,
    }
    try:
        return written(folder, files)
    except SpecError as error:
        if any(d.code not in ("LH402", "LH412") for d in error.diagnostics if d.severity == "error"):
            raise
        return None
