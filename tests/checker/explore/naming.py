"""Systems by chance whose records, messages and sequences name machines, so that a permutation has to move them all."""

from __future__ import annotations

import random
from pathlib import Path

from leasehold.spec import SpecError, System
from tests.systems import written

# By a datum of a person: its type, and the values that an event sets it to.
DATA = {
    "friend": ("option[person]", ("event.who", "none", "event.who if friend == none else none")),
    "known": ("set[person]", ("known | {event.who}", "known - {event.who}", "{}", "person - known")),
    "queue": ("seq[person, 2]", ("append(queue, event.who) if len(queue) < 2 else rest(queue)", "[event.who]")),
    "place": ("option[room]", ("event.room", "event.room if place != event.room else none")),
    "keys": ("set[room]", ("keys | {event.room}", "room - keys")),
    "groups": ("seq[set[person], 2]", ("[{event.who}]", "append(rest(groups), {event.who, self})")),
    "held": ("option[token]", ("event.token", "none if held == event.token else held")),
    "bit": ("bool", ("not bit",)),
}
CELLS = {  # by a map: its type, the cell that an event sets, and to what
    "likes": ("map[person, bool]", "likes[event.who]", "not likes[event.who]"),
    "near": ("map[room, set[person]]", "near[event.room]", "near[event.room] | {event.who}"),
    "last": ("map[token, option[person]]", "last[event.token]", "event.who"),
    "asked": ("map[person, option[room]]", "asked[event.who]", "event.room"),
}
GUARDS = (
    "true",
    "true",
    "event.who != self",
    "event.who == self or event.who.state == away",
    "any(p.state == away for p in person if p != self)",
    "count(p.state == here for p in person) > 1",
)
CLAIMS = (
    'always: "count(p.state == away for p in person) < 2"',
    'sometimes: "all(p.state == away for p in person)"',
    'step: "all(not took(p.act) or p.state != old(p.state) for p in person)"',
    'always_possible: "all(p.state == here for p in person)"',
)
KINDS = ("mailbox", "fifo(1)", "bag(2)", "multiset(2)", "set")
FIELDS = {"who": "person", "room": "room", "token": "token"}  # of an event, by the name
TOLD = {  # by the type of a message's field: what is told, and whom the hearer takes for a friend
    "person": ("event.who", "msg.about"),
    "option[person]": ("event.who", "msg.about"),
    "set[person]": ("{event.who, self}", "msg.sender"),
}
PERSON = """role: person
data:
  told: {{type: "set[person]"}}
{data}
events:
  act: {event}
  rest: It rests.
states:
  here:
    initial: true
    on:
      act: {{to: away{when}, set: {{{sets}}}{also}}}
{hears}    ignore: {{rest: it is here{otherwise}}}
  away:
    on:
      rest: {{to: here}}
{hears}    ignore: {{act: it is away}}
{tasks}"""
ROOM = """role: room
data: {lit: bool}
events: {press: It is pressed.}
states:
  open: {initial: true, on: {press: {to: open, set: {lit: not lit}}}}
"""
BADGE = """role: badge
events: {wear: It is put on.}
states:
  off: {initial: true, on: {wear: {to: on}}}
  on: {on: {wear: {to: off}}}
"""
SEAT = """role: seat
events: {sit: Somebody sits down.}
states:
  free: {initial: true, on: {sit: {to: taken}}}
  taken: {on: {sit: {to: free}}}
"""


def naming(folder: Path, rng: random.Random) -> System | None:
    """A system of persons and rooms that name one another; None where the loader does not take it."""
    persons, rooms = rng.choice(((2, 2), (2, 1), (3, 1), (3, 1), (2, 3), (4, 1)))
    names = rng.sample(list(DATA), rng.choice((0, 1, 1, 2)))
    cells = rng.sample(list(CELLS), rng.choice((0, 0, 1)) if names else 1)
    sends, paired, seated = rng.random() < 0.5, rng.random() < 0.2, rng.random() < 0.2
    sets = [f'{name}: "{rng.choice(DATA[name][1])}"' for name in names]
    sets += [f'"{CELLS[name][1]}": "{CELLS[name][2]}"' for name in cells]
    about = rng.choice(list(TOLD))
    said, heard = TOLD[about]
    only = rng.choice(("it != self", "it == event.who", "true"))
    tell = f'tasks:\n  tell: {{send: note, to: person, only: "{only}", with: {{about: "{said}"}}}}\n' if sends else ""
    keeps = f'friend: "{heard}"' if "friend" in names else 'told: "told | {msg.sender}"'
    guard = rng.choice(GUARDS)
    fields = {name: of for name, of in FIELDS.items() if f"event.{name}" in f"{guard} {sets} {tell}"}
    event = ", ".join(f"{name}: {of}" for name, of in fields.items())
    files = {
        "roles/person.yaml": PERSON.format(
            data="\n".join(f'  {name}: {{type: "{(DATA.get(name) or CELLS[name])[0]}"}}' for name in (*names, *cells)),
            event=f"{{fields: {{{event}}}}}" if event else "It acts.",
            when="" if guard == "true" else f', when: "{guard}"',
            otherwise="" if guard == "true" else ", act: it does not want to",
            sets=", ".join(sets),
            also=", also: tell" if sends else "",
            hears=f"      note: {{stay: true, set: {{{keeps}}}}}\n" if sends else "",
            tasks=tell,
        ),
        "roles/room.yaml": ROOM,
        "invariants.yaml": f"properties:\n  claimed: {{{rng.choice(CLAIMS)}}}\n",
    }
    roles = [f"person: {{instances: {persons}}}", f"room: {{instances: {rooms}}}"]
    environment = ["act: {to: person}", "rest: {to: person}", "press: {to: room}"]
    if paired:
        roles.append(f"badge: {{instances: {persons}}}")
        environment.append('wear: {to: badge, when: "any(p.state == away and index(p) == index(it) for p in person)"}')
        files["roles/badge.yaml"] = BADGE
    if seated:
        roles.append(f"seat: {{instances: {persons * rooms}}}")
        sits = f"person[index(it) // {rooms}].state == away and room[index(it) % {rooms}].lit"
        environment.append(f'sit: {{to: seat, when: "{sits}"}}')
        files["roles/seat.yaml"] = SEAT
    system = f"system: naming\nroles: {{{', '.join(roles)}}}\nenvironment: {{{', '.join(environment)}}}\n"
    if any("token" in text for text in (*fields, files["roles/person.yaml"])):
        system += "types: {token: {count: 2}}\n"
    if sends:
        kind = rng.choice(KINDS)
        answers = ", answer: true" if kind == "mailbox" else ""
        system += f"channels: {{notes: {{from: person, to: person, kind: {kind}}}}}\n"
        note = f'{{from: person, to: person, fields: {{about: "{about}"}}{answers}}}'
        files["messages.yaml"] = f"messages:\n  note: {note}\n"
    try:
        return written(folder, {**files, "system.yaml": system})
    except SpecError:
        return None
