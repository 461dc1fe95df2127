"""Which channels may grow without end: those into which somebody can send again and again without waiting."""

from pathlib import Path

import pytest

from leasehold.spec import load
from leasehold.spec.language.check.unbounded import growing
from tests.systems import files_of, write

PIPES = files_of("spec/language/check/systems/pipes")
SYSTEM = PIPES["system.yaml"]
MESSAGES = "messages: {hello: {from: a, to: b}, on: {from: b, to: c}, heard: {from: b, to: a}}\n"
FREE = PIPES["roles/a.yaml"]
WAITS = """
role: a
events: {go: {}}
states:
  idle: {initial: true, on: {go: {to: said}}, ignore: {heard: it waits for none}}
  said: {tasks: [say], on: {heard: {to: idle}}, ignore: {go: it waits}}
tasks: {say: {send: hello, to: b}}
"""
B = PIPES["roles/b.yaml"]
C = "role: c\nstates: {there: {initial: true, on: {on: {stay: true}}}}\n"
CASES = {
    "fifo": ("fifo", "", FREE, ["channel line", "channel far", "channel back"]),
    "bag": ("bag", "", FREE, ["channel line", "channel far", "channel back"]),
    "multiset": ("multiset", "", FREE, ["channel line", "channel far", "channel back"]),
    "a capacity, which bounds nothing that is passed on": ("fifo(2)", "", FREE, ["channel far", "channel back"]),
    "a set, whose messages are received again and again": ("set", "", WAITS, ["channel far", "channel back"]),
    "a constraint": ("fifo", "constraint: count(True for m in pending(line)) < 3", FREE, []),
    "a sender that waits": ("fifo", "", WAITS, []),
}


def files(kind: str, more: str, sender: str) -> dict[str, str]:
    return {
        "system.yaml": SYSTEM.replace("KIND", kind).replace("MORE", more),
        "messages.yaml": MESSAGES,
        "roles/a.yaml": sender,
        "roles/b.yaml": B,
        "roles/c.yaml": C,
        "invariants.yaml": "properties: {there: {always: b.state == there}}\n",
    }


@pytest.mark.parametrize("name", CASES)
def test_which_channels_grow(name: str, tmp_path: Path) -> None:
    kind, more, sender, wanted = CASES[name]
    system = load(write(tmp_path / "pipes", files(kind, more, sender)))
    assert growing(system) == wanted
    assert [w.code for w in system.warnings if w.code == "LH419"] == ["LH419"] * len(wanted)


COUNTER = """
role: counter
data: {n: {type: "TYPE", min: 0MORE}}
events: {go: {}}
states: {on_: {initial: true, on: {go: {stay: true, set: {"TARGET": "VALUE"}}}}}
"""
COUNTS = {  # type, target, its new value, whether it grows: of each kind of type that may have a number in it
    "a number": ("int", "n", "n + 1", True),
    "an optional number": ("option[int]", "n", "get(n, 0) + 1", True),
    "a cell": ("map[side, int]", "n[left]", "n[left] + 1", True),
    "an optional number in a cell": ("map[side, option[int]]", "n[left]", "get(n[left], 0) + 1", True),
    "a number in a sequence": ("seq[int, 2]", "n", "take([get(last(n), 0) + 1], 2)", True),
    "a number in a sequence that is joined": ("seq[int, 2]", "n", "take([get(first(n), 0) + 1] + n, 2)", True),
    "a sequence that is joined": ("seq[int, 2]", "n", "take([get(last(n), 0)] + n, 2)", False),
}


@pytest.mark.parametrize("bounded", [False, True], ids=["without an end", "within a range"])
@pytest.mark.parametrize("name", COUNTS)
def test_which_numbers_grow(name: str, bounded: bool, tmp_path: Path) -> None:
    kind, target, value, grows = COUNTS[name]
    text = COUNTER.replace("TYPE", kind).replace("MORE", ", max: 9" if bounded else "")
    text = text.replace("TARGET", target).replace("VALUE", value)
    made = "system: counts\nroles: {counter: {}}\ntypes: {side: {members: [left, right]}}\n"
    made += "environment: {go: {to: counter}}\n"
    system = load(
        write(
            tmp_path / "counts",
            {
                "system.yaml": made,
                "roles/counter.yaml": text,
                "invariants.yaml": "properties: {counted: {always: counter.n == counter.n}}\n",
            },
        )
    )
    assert growing(system) == (["counter.n"] if grows and not bounded else [])


GROWTH = {
    "n + 1": True,
    "1 + n": True,
    "n * 2": True,
    "n + n": True,
    "n": False,
    "3": False,
    "n - 1": False,
    "max(n + 1, 2)": True,
    "max(2, n + 1)": True,
    "min(n + 1, 2)": False,
    "min(2, n + 1)": False,
    "(n + 1) % 4": False,
    "n % 4 + 1": True,
    "(n + 1) // 2": True,
    "-(-(n + 1))": True,
    "abs(n + 1)": True,
    "n + 1 - 2": True,
    "max(min(n + 1, 2), 1)": False,
    "min(max(n + 1, 2), 9)": False,
    "n + 1 if side == left else 0": True,
    "0 if side == left else n + 1": True,
    "n + 1 if n < 3 else 0": False,
}


@pytest.mark.parametrize("value", GROWTH)
def test_which_values_grow(value: str, tmp_path: Path) -> None:
    """Whatever is around the sum: some operators bound what they are given."""
    system = load(
        write(
            tmp_path / "counts",
            {
                "system.yaml": (
                    "system: counts\nroles: {counter: {}}\ntypes: {side: {members: [left, right]}}\n"
                    "environment: {go: {to: counter}}\n"
                ),
                "roles/counter.yaml": (
                    "role: counter\ndata: {n: int, side: side}\nevents: {go: {}}\n"
                    f'states: {{on_: {{initial: true, on: {{go: {{stay: true, set: {{n: "{value}"}}}}}}}}}}\n'
                ),
                "invariants.yaml": (
                    "properties: {counted: {always: counter.n == counter.n and counter.side == counter.side}}\n"
                ),
            },
        )
    )
    assert growing(system) == (["counter.n"] if GROWTH[value] else [])


BOUNDS = {  # environment, more of system.yaml, more of the field, whether it grows
    "nothing": ("{go: {to: counter}}", "", "", True),
    "the environment": ("{go: {to: counter, when: it.n < 3}}", "", "", False),
    "the environment, by another's": ("{go: {to: counter, when: now < 3}}", "clock: {horizon: 3}\n", "", True),
    "one of two offers": ("{go: {to: counter, when: it.n < 3}, more: {to: counter, event: go}}", "", "", True),
    "each of two": (
        "{go: {to: counter, when: it.n < 3}, more: {to: counter, event: go, when: it.n == 7}}",
        "",
        "",
        False,
    ),
    "a constraint": ("{go: {to: counter}}", "constraint: counter.n < 5\n", "", False),
    "what is explored": ("{go: {to: counter}}", "", ", explore: [0, 4]", False),
    "the author's reason": ("{go: {to: counter}}", "", ", unbounded: a hand gets tired", False),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_what_bounds_a_number(name: str, tmp_path: Path) -> None:
    environment, more, field, grows = BOUNDS[name]
    files = {
        "system.yaml": f"system: counts\nroles: {{counter: {{}}}}\n{more}environment: {environment}\n",
        "roles/counter.yaml": (
            f"role: counter\ndata: {{n: {{type: int{field}}}}}\nevents: {{go: {{}}}}\n"
            "states: {idle: {initial: true, on: {go: {stay: true, set: {n: n + 1}}}}}\n"
        ),
        "invariants.yaml": "properties: {counted: {always: counter.n == counter.n}}\n",
    }
    system = load(write(tmp_path / "counts", files))
    assert growing(system) == (["counter.n"] if grows else [])
    assert [w.code for w in system.warnings if w.code != "LH424"] == (["LH419"] if grows else [])


@pytest.mark.parametrize(
    ("kind", "more", "grows"),
    [
        ("int", "", True),
        ("{type: int, max: 9}", "", False),
        ("int", "constraint: all(m.n < 5 for m in pending(tell))\n", False),
    ],
)
def test_what_grows_by_way_of_messages_ends_with_them(kind: str, more: str, grows: bool, tmp_path: Path) -> None:
    """Two send a number to each other, and one of them adds to it."""
    tell = f"tell: {{from: a, to: b, fields: {{n: {kind}}}}}"
    files = {
        "system.yaml": (
            f"system: two\nroles: {{a: {{}}, b: {{}}}}\n{more}channels: {{ab: {{from: a, to: b, kind: fifo(1)}}, "
            "ba: {from: b, to: a, kind: fifo(1)}}\n"
        ),
        "messages.yaml": f"messages: {{{tell}, back: {{from: b, to: a, fields: {{n: int}}}}}}\n",
        "roles/a.yaml": (
            "role: a\ndata: {n: int}\ntasks: {say: {send: tell, to: b, with: {n: n}}}\n"
            'states: {told: {initial: true, tasks: [say], on: {back: {to: told, set: {n: "msg.n + 1"}}}}}\n'
        ),
        "roles/b.yaml": (
            "role: b\ndata: {n: int}\ntasks: {say: {send: back, to: a, with: {n: n}}}\n"
            'states: {there: {initial: true, on: {tell: {to: there, set: {n: "msg.n"}}}, tasks: [say]}}\n'
        ),
        "invariants.yaml": "properties: {counted: {always: a.n == a.n}}\n",
    }
    system = load(write(tmp_path / "two", files))
    assert growing(system) == (["a.n"] if grows else [])


def test_the_author_answers_for_a_channel(tmp_path: Path) -> None:
    texts = files("fifo", "", FREE)
    texts["system.yaml"] = texts["system.yaml"].replace("kind: fifo}", "kind: fifo, unbounded: it is read at once}")
    assert growing(load(write(tmp_path / "pipes", texts))) == []
