"""Refusals of exports: which systems and names a format does not take, at which limits, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.export import ExportError, ExportOptions, export_system, promela_steps, shared
from leasehold.spec import System
from tests.systems import files_of, written

LAMP = files_of("checker/export/systems/lamp")

# Two machines send to a hub, which drives a subsidiary lock.
HUB = files_of("checker/export/systems/hub")
BOLT = "role: bolt\nsubsidiary: lock\nevents: {turn: It turns.}\nstates: {b: {initial: true, on: {turn: {to: b}}}}\n"
SHUT = "  shut: {on: {turn: {to: open}}}"
# A machine that sends two messages in one step, over two channels; one of them has a capacity.
BESIDE = ("to: hub, kind: bag", "to: hub, kind: bag(2)}, d: {from: a, to: a, kind: bag")
BETWEEN = ("to: hub, kind: bag", "to: hub, kind: bag}, d: {from: a, to: a, kind: bag(2)")
HANDED = ("to: hub}", "to: hub}, n: {from: a, to: a}")
HANDS = """role: a
events: {{go: It goes.}}
states:
  s: {{initial: true, on: {{go: {{to: t}}, n: {{to: s}}}}}}
  t: {{tasks: [say, hand], on: {{go: {{to: s}}, n: {{to: t}}}}}}
tasks: {{say: {{send: m, to: hub, when: "{0}"}}, hand: {{send: n, to: a, only: it != self}}}}
"""
HEARS = """role: a
events: {go: It goes.}
states:
  s: {initial: true, on: {go: {to: t}, told: {to: s}}}
  t: {tasks: [say], on: {go: {to: s}, told: {to: t}}}
tasks: {say: {send: m, to: hub}}
"""
CASES = {
    "as it is": ({}, {}),
    "duplicates": (
        {"system.yaml": ("to: hub, kind: bag", "to: hub, kind: bag, duplicate: 1")},
        {"tla": r"system.yaml:\d+:\d+: channel c has faults that ask for the numbers of messages"},
    ),
    "losses without a limit": (
        {"system.yaml": ("to: hub, kind: bag", "to: hub, kind: bag, lose: any")},
        {},
    ),
    "a limited number of losses": (
        {"system.yaml": ("to: hub, kind: bag", "to: hub, kind: bag, lose: 1")},
        {"tla": r"system.yaml:\d+:\d+: channel c loses a limited number of messages; set its budget to 0 or `any`"},
    ),
    "reordering": (
        {"system.yaml": ("to: hub, kind: bag", "to: hub, kind: mailbox, reorder: 1")},
        {"tla": "channel c has faults that ask"},
    ),
    "losses of a mailbox": (
        {"system.yaml": ("to: hub, kind: bag", "to: hub, kind: mailbox, lose: any")},
        {"tla": "channel c has faults that ask"},
    ),
    "a constant of 32 bits": (
        {"system.yaml": ("value: 7", "value: 2147483648")},
        {"promela": "`big` is 2147483648, and Promela's numbers have 32 bits; make it smaller"},
    ),
    "the largest constant": ({"system.yaml": ("value: 7", "value: 2147483647")}, {}),
    "a channel with a capacity": ({"system.yaml": ("to: hub, kind: bag", "to: hub, kind: bag(2)")}, {}),
    "a channel with a capacity between machines of one role": (
        {"system.yaml": BETWEEN, "messages.yaml": HANDED, "roles/a.yaml": ("", HANDS.format("self == a[0]"))},
        {"promela": r"system.yaml:\d+:\d+: channel d joins machines of one role and has a capacity; make it a mailbox"},
    ),
    "room for a message that depends on others": (
        {"system.yaml": BESIDE, "messages.yaml": HANDED, "roles/a.yaml": ("", HANDS.format("hub.state == w"))},
        {"promela": r"roles/a.yaml:\d+:\d+: whether task say sends into a channel with a capacity depends on what"},
    ),
    "room for a message that depends on messages": (
        {"system.yaml": BESIDE, "messages.yaml": HANDED, "roles/a.yaml": ("", HANDS.format("len(pending(n)) == 0"))},
        {"promela": "depends on what other tasks do; let it read its own record alone"},
    ),
    "room for a message that depends on its sender": (
        {"system.yaml": BESIDE, "messages.yaml": HANDED, "roles/a.yaml": ("", HANDS.format("self == a[0]"))},
        {},
    ),
    "a driven machine that sends over a channel with a capacity": (
        {
            "system.yaml": ("kind: bag}", "kind: bag}, e: {from: lock, to: a, kind: bag(2)}"),
            "messages.yaml": ("to: hub}", "to: hub}, told: {from: lock, to: a}"),
            "roles/lock.yaml": (
                SHUT,
                "  shut: {tasks: [tell], on: {turn: {to: open}}}\ntasks: {tell: {send: told, to: a}}",
            ),
            "roles/a.yaml": ("", HEARS),
        },
        {
            "promela": "subsidiary lock sends told over a channel with a capacity; let its parent send it, or make",
            "tla": "lock/open#turn is driven, and sends or drives in its turn",
        },
    ),
    "a driven machine that changes shared variables": (
        {"roles/lock.yaml": (SHUT, "  shut: {on: {turn: {to: open, set: {shared.seen: true}}}}")},
        {"tla": "lock/shut#turn is driven, and changes a shared variable; let the parent do it"},
    ),
    "a driven machine that reads another": (
        {"roles/lock.yaml": (SHUT, "  shut: {on: {turn: {to: open, when: hub.state == v}}, ignore: {turn: no}}")},
        {"tla": "lock/shut#turn is driven, and reads more than its record; let it read its own"},
    ),
    "a driven machine that sends": (
        {
            "roles/lock.yaml": (
                SHUT,
                "  shut: {tasks: [tell], on: {turn: {to: open}}}\ntasks: {tell: {drive: bolt, event: turn}}",
            ),
            "system.yaml": ("lock: {}", "lock: {}, bolt: {}"),
            "roles/bolt.yaml": ("", BOLT),
        },
        {"tla": "lock/open#turn is driven, and sends or drives in its turn; let the parent do it"},
    ),
}


def changed(folder: Path, changes: dict[str, tuple[str, str]]) -> System:
    files = dict(HUB)
    for name, (old, new) in changes.items():
        text = files.get(name.strip(), "")
        assert old in text
        files[name.strip()] = text.replace(old, new, 1) if old else new
    return written(folder, files)


@pytest.mark.parametrize("case", CASES)
def test_a_format_refuses_what_it_cannot_express(case: str, tmp_path: Path) -> None:
    """The other format takes the same system."""
    changes, refused = CASES[case]
    system = changed(tmp_path, changes)
    for to in ("promela", "tla"):
        if to in refused:
            with pytest.raises(ExportError, match=refused[to]):
                export_system(system, to)
        else:
            assert export_system(system, to).text


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("lamp.tla", ""),
        ("A_1.tla", ""),
        ("a1.tla", ""),
        ("1a.tla", ""),
        ("a-b.tla", "'a-b' is no name of a TLA"),
        ("12.tla", "'12' is no name of a TLA"),
        ("ä.tla", "is no name of a TLA"),
        ("a b.tla", "use letters, digits"),
        ("lamp.txt", "TLC reads modules from files that end in .tla, not 'lamp.txt'; rename the file"),
        ("lamp", "files that end in .tla, not 'lamp'"),
    ],
)
def test_a_module_is_called_as_its_file(file: str, words: str, tmp_path: Path) -> None:
    system = written(tmp_path, LAMP)
    if words:
        with pytest.raises(ExportError, match=words):
            export_system(system, "tla", ExportOptions(Path(file)))
        return
    for options, name in ((ExportOptions(tmp_path / file), Path(file).stem), (None, "lamp")):
        first = export_system(system, "tla", options).text.splitlines()[0]
        assert first == f" MODULE {name} ".center(110, "-")


def with_fields(folder: Path, *sizes: int) -> System:
    """A lamp whose event has fields of so many values each."""
    fields = ", ".join(f"f{n}: {{type: int, explore: [1, {size}]}}" for n, size in enumerate(sizes))
    role = LAMP["roles/lamp.yaml"].replace("press: Somebody presses the button.", f"press: {{fields: {{{fields}}}}}")
    return written(folder, {**LAMP, "roles/lamp.yaml": role})


@pytest.mark.parametrize(
    ("sizes", "most", "words"),
    [
        ((5,), 5, ""),
        ((5,), 4, "`f0` has more than 4 values to try; give it a smaller `explore`"),
        ((2, 3), 6, ""),
        ((2, 3), 5, "an event with the field `f0` has 6 combinations of values; give its fields a smaller `explore`"),
        ((3, 2), 2, "`f0` has more than 2 values to try"),
    ],
)
def test_combinations_of_fields_have_a_limit(
    sizes: tuple[int, ...], most: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The most that there may be are written out, and one more is refused."""
    system = with_fields(tmp_path, *sizes)
    monkeypatch.setattr(shared, "MOST_WITNESSES", most)
    if words:
        with pytest.raises(ExportError, match=r"lamp\.yaml:\d+:\d+: " + words):
            export_system(system, "promela")
    else:
        assert export_system(system, "promela").text


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("now - 1", "now + 1"),
        ("now - 4 if now == 3 else now", "now"),
        ("now - 3 if now == 3 else now", "now"),
        ("now", "now"),
        ("0 - 1", "1"),
        ("0", "1"),
        ("now - 3", "now"),
    ],
)
def test_values_that_the_clock_moves_are_those_of_each_time(low: str, high: str, tmp_path: Path) -> None:
    """Times go from 0 to the horizon, which is 3, both ends evaluated by hand; no time is below 0."""
    role = LAMP["roles/lamp.yaml"].replace(
        "press: Somebody presses the button.",
        f'press: {{fields: {{at: {{type: time, explore: ["{low}", "{high}"]}}}}}}',
    )
    system = written(tmp_path, {**LAMP, "roles/lamp.yaml": role})
    (field,) = system.roles["lamp"].events["press"].fields
    moves = "now" in low + high
    ends = [(eval(low, {"now": now}), eval(high, {"now": now})) for now in (range(4) if moves else [0])]
    values = {value for a, b in ends for value in range(max(a, 0), b + 1)}
    assert (shared.moving(field), set(shared.values_to_try(system, field))) == (moves, values)
    assert shared.begins_below_zero(system, field) is any(a < 0 for a, _ in ends)


def test_alternatives_of_a_model_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lamp has two presses, its timer and the clock."""
    system = written(tmp_path, LAMP)
    monkeypatch.setattr(promela_steps, "MOST_ALTERNATIVES", 4)
    assert export_system(system, "promela").text
    monkeypatch.setattr(promela_steps, "MOST_ALTERNATIVES", 3)
    with pytest.raises(ExportError, match="the model has more than 3 alternatives; set constants"):
        export_system(system, "promela")
