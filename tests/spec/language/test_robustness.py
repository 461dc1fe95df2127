"""Whatever the files hold: a System or a SpecError, soon, and in little memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.checker.explore.ground import function
from leasehold.spec.language.diagnostics import Place, Sink, SpecError
from leasehold.spec.language.load import load
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.render.python_source import Frame, source
from leasehold.spec.language.types import INT
from leasehold.spec.language.typing.names import DeclaredNames, Scope
from leasehold.spec.language.typing.parse import parse

TRUTH = Path(__file__).resolve().parents[2] / "truth"
SYSTEM = b"system: small\nroles: {light: {}}\nenvironment: {press: {to: light}}\n"
SECONDS = 120  # a guard against input that never ends, not a measure of speed


LIGHT = "role: light\nevents: {press: A hand.}\nstates:\n  off: {initial: true, on: {press: {to: off}}}\n"


def light(guard: str, fields: str) -> bytes:
    return f"""role: light
events: {{press: {{fields: {{{fields}}}}}}}
states:
  off:
    initial: true
    on: {{press: {{to: off, when: "{guard}"}}}}
    ignore: {{press: nothing}}
""".encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "small"
    (made / "roles").mkdir(parents=True)
    (made / "system.yaml").write_bytes(SYSTEM)
    (made / "roles" / "light.yaml").write_text(LIGHT)
    return made


def codes(folder: Path, **given_: str | int) -> set[str]:
    """The codes of what is found; the limit on time is generous, what is quadratic or worse goes far beyond it."""
    start = time.perf_counter()
    try:
        found = {d.code for d in load(folder, given_).warnings}
    except SpecError as error:
        said = error.diagnostics
        found = {d.code for d in said}
    else:
        said = ()
    assert time.perf_counter() - start < SECONDS
    assert all(len(str(d)) < 5000 for d in said)
    return found


LAUGHS = b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (i + 1, i + 1, i, i) for i in range(97, 120))

TEXTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "LH105"),
    "blank lines": (b"\n \n", "LH105"),
    "binary": (bytes(range(256)), "LH103"),
    "NUL": (b"system: a\0b\n", "LH103"),
    "NUL, escaped": (b'system: "a\\0b"\n', "LH205"),
    "UTF-16": ("system: small\n".encode("utf-16"), "LH103"),
    "a surrogate": (b'system: "\\ud800"\n', "LH1"),
    "a tab": (b"system: small\nroles:\n\tlight: {}\n", "LH104"),
    "a key twice": (SYSTEM + b"system: again\n", "LH106"),
    "a billion laughs": (LAUGHS, "LH107"),
    "an object": (b"system: !!python/object/apply:os.system [ls]\n", "LH107"),
    "a merge": (SYSTEM + b"<<: {roles: {}}\n", "LH201"),
    "two documents": (SYSTEM + b"---\nsystem: other\n", "LH107"),
    "10 MB": (SYSTEM + b"#" * 10_000_000, "LH102"),
    "100,000 brackets": (b"system: " + b"[" * 100_000, "LH108"),
    "100,000 braces": (b"{a: " * 100_000, "LH108"),
    "100,000 dashes": (b"- " * 100_000, "LH108"),
    "100,000 unknown keys": (b"".join(b"k%d: 1\n" % i for i in range(90_000)), "LH112"),
    "a key that is a list": (b"? [a, b]\n: c\n", "LH203"),
    "a key that is a number": (SYSTEM + b"7: c\n", "LH201"),
    "a name of a million letters": (b"roles: {light: {}}\nsystem: " + b"a" * 1_000_000, "LH205"),
    "a scalar": (b"lease\n", "LH203"),
    "a list": (b"- system\n", "LH203"),
    "a directive": (b"%YAML 9.9\n---\nsystem: small\n", "LH1"),
    "a cycle": (SYSTEM + b"include: system.yaml\n", "LH110"),
    "an include of a folder": (SYSTEM + b"include: roles\n", "LH101"),
    "an include of nothing": (SYSTEM + b"include: nothing.yaml\n", "LH109"),
    "an include of NUL": (SYSTEM + b'include: "a\\0b"\n', "LH109"),
    "an include with a long name": (SYSTEM + b"include: " + b"x" * 5000 + b"\n", "LH109"),
    "an include of a device": (SYSTEM + b"include: /dev/zero\n", "LH101"),
    "a role in a folder": (b"system: small\nroles: {light: {file: roles}}\n", "LH101"),
    "a role in no file": (b"system: small\nroles: {light: {file: ''}}\n", "LH101"),
    "a reserved name": (b"system: small\nroles: {lambda: {}}\n", "LH205"),
    "a dunder name": (b"system: small\nroles: {__class__: {}}\n", "LH205"),
    "a look-alike": ("system: small\nroles: {l\N{CYRILLIC SMALL LETTER I}ght: {}}\n".encode(), "LH205"),
    "full width": ("system: \N{FULLWIDTH LATIN SMALL LETTER A}\n".encode(), "LH205"),
    "5,000 digits": (SYSTEM + b"constants: {n: {type: int, value: " + b"9" * 5000 + b"}}\n", "LH307"),
    "superscript digits": (SYSTEM + "constants: {n: {type: int, value: ²}}\n".encode(), "LH307"),
    "a bound of 5,000 digits": (
        SYSTEM + b"constants: {n: {type: int, value: 1, max: " + b"9" * 5000 + b"}}\n",
        "LH203",
    ),
    "two signs": (SYSTEM + b"constants: {n: {type: int, value: --1}}\n", "LH307"),
    "a clock without end": (SYSTEM + b"clock: {horizon: 1000000000000}\n", ""),
    "a power as a horizon": (SYSTEM + b"clock: {horizon: 9**9**9}\n", "LH304"),
    "a shift as a horizon": (SYSTEM + b"clock: {horizon: 1 << 9999999999}\n", "LH304"),
    "a product as a horizon": (SYSTEM + b"clock: {horizon: " + b"*".join([b"10"] * 50) + b"}\n", "LH307"),
    "a sum of sums": (
        SYSTEM + b"types: {t: {count: 64}}\nclock: {horizon: "
        b"sum(sum(sum(sum(1 for a in t) for b in t) for c in t) for d in t)}\n",
        "LH306",
    ),
    "a million machines": (b"system: small\nroles: {light: {instances: 1000000}}\n", "LH702"),
    "no machines": (b"system: small\nroles: {light: {instances: 0}}\n", "LH702"),
    "maps of maps": (SYSTEM + b"types: {t: {count: 64}}\nchannels: {}\n", ""),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_strange_system_yaml(folder: Path, name: str) -> None:
    text, code = TEXTS[name]
    (folder / "system.yaml").write_bytes(text)
    found = codes(folder)
    assert any(c.startswith(code) for c in found) or not code, found


SETS = ", ".join(f"m{i}" for i in range(60))
GUARDS: dict[str, tuple[str, str, str]] = {
    "a power": ("9**9**9 > 1", "", "LH304"),
    "a big number": ("1 < " + "9" * 3900, "", "LH307"),
    "a big number in hex": ("1 < 0x" + "f" * 3900, "", "LH307"),
    "a float": ("1.5 > 1", "", "LH304"),
    "a text": ("'a' == 'b'", "", "LH304"),
    "a lambda": ("(lambda: true)()", "", "LH302"),
    "an import": ("__import__('os').system('ls')", "", "LH302"),
    "a dunder": ("().__class__", "", "LH304"),
    "a walrus": ("(a := 1) > 0", "", "LH304"),
    "an f-string": ("f'{1}' == 1", "", "LH304"),
    "a star": ("min(*light) > 1", "", "LH3"),
    "yield": ("(yield 1)", "", "LH304"),
    "await": ("(await self)", "", "LH304"),
    "a slice": ("light[0:1].state == off", "", "LH304"),
    "5,000 letters": (" and ".join(["true"] * 700), "", "LH306"),
    "1,000 brackets": ("(" * 1000 + "true" + ")" * 1000, "", "LH30"),
    "nots": ("not " * 900 + "true", "", "LH306"),
    "minuses": ("-" * 3000 + "1 > 0", "", "LH306"),
    "dots": ("event" + ".a" * 58, "", "LH305"),
    "chains in chains": ("0 < (1 if " * 19 + "true" + " else 0) < 2" * 19, "", "LH306"),
    "a comment": ("true # or not", "", "LH301"),
    "a backslash": ("true \\\\", "", "LH301"),
    "a look-alike": ("tru\N{CYRILLIC SMALL LETTER IE}", "", "LH301"),
    "full width": ("\N{FULLWIDTH LATIN SMALL LETTER T}rue", "", "LH301"),
    "an enormous range": ("event.n > 3", "n: {type: int, explore: [0, 1000000000000]}", ""),
    "an endless time": ("event.n > 3", "n: {type: time, explore: [0, 1000000000000]}", ""),
    "a range that is upside down": ("event.n > 3", "n: {type: int, explore: [5, 0]}", ""),
    "a range of other machines": ("event.n > 3", "n: {type: int, explore: [0, light.level]}", "LH302"),
    "a range without a clock": ("event.n > 3", "n: {type: int, explore: [0, now]}", "LH308"),
    "a set of sixty": ("len(event.n) > 3", "n: 'set[sixty]'", ""),
    "a map of sixty": ("event.n[m0]", "n: 'map[sixty, bool]'", ""),
    "maps of maps of maps": ("true", "n: 'map[sixty, map[sixty, map[sixty, map[sixty, map[sixty, int]]]]]'", "LH306"),
    "many numbers": (
        " or ".join(f"event.n{i} == {i * 100}" for i in range(30)),
        ", ".join(f"n{i}: {{type: int, min: 0, max: 3000}}" for i in range(30)),
        "",
    ),
    "quantifiers in quantifiers": (
        "all(all(all(all(true for a in sixty) for b in sixty) for c in sixty) for d in sixty)",
        "",
        "LH306",
    ),
    "a costly guard": (
        "count(count(a == b for a in sixty) > 0 for b in sixty) > event.n",
        "n: {type: int, min: 0, max: 3000}",
        "",
    ),
}


@pytest.mark.parametrize("name", GUARDS)
def test_a_strange_guard(folder: Path, name: str) -> None:
    guard, fields, code = GUARDS[name]
    (folder / "system.yaml").write_bytes(SYSTEM + f"types: {{sixty: {{members: [{SETS}]}}}}\n".encode())
    (folder / "roles" / "light.yaml").write_bytes(light(guard, fields))
    found = codes(folder)
    assert any(c.startswith(code) for c in found) if code else not found - {"LH412"}, found


def _many_pairs(folder: Path) -> None:
    events = ", ".join(f"e{i}" for i in range(5000))
    states = ", ".join(f"s{i}" for i in range(5000))
    (folder / "roles" / "light.yaml").write_text(
        f"role: light\nevents: {{{events.replace(',', ': x,')}: x}}\nstates: {{{states.replace(',', ': {},')}: {{}}}}\n"
        f"ignore: [{{events: [{events}], in: [{states}], because: no}}]\n"
    )


def _many_tasks(folder: Path) -> None:
    tasks = [f"t{i}" for i in range(3000)]
    (folder / "roles" / "light.yaml").write_text(
        "role: light\ntasks: {" + ", ".join(f"{t}: {{send: m, to: light}}" for t in tasks) + "}\n"
        f"states: {{off: {{initial: true, tasks: [{', '.join(tasks)}], ignore: {{m: x}}}}}}\n"
    )
    (folder / "system.yaml").write_text(
        "system: small\nroles: {light: {}}\nchannels: {c: {from: light, to: light, kind: bag}}\n"
    )
    (folder / "messages.yaml").write_text("messages: {m: {from: light, to: light}}\n")


def _one_task_often(folder: Path) -> None:
    (folder / "roles" / "light.yaml").write_text(
        "role: light\ntasks: {t: {call: policy.b}}\nstates: {off: {initial: true, tasks: [" + "t, " * 100_000 + "t]}}\n"
    )


def _many_files(folder: Path) -> None:
    for i in range(100):
        (folder / f"part{i}.yaml").write_text("doc: Nothing.\n")
    names = ", ".join(f"part{i}.yaml" for i in range(100))
    (folder / "system.yaml").write_text(SYSTEM.decode() + f"include: [{names}]\n")


def _loop(folder: Path) -> None:
    (folder / "roles" / "light.yaml").unlink()
    (folder / "roles" / "light.yaml").symlink_to("light.yaml")


def _stray_loop(folder: Path) -> None:
    (folder / "roles" / "other.yaml").symlink_to("other.yaml")


def _pipe(folder: Path) -> None:
    (folder / "messages.yaml").unlink(missing_ok=True)
    os.mkfifo(folder / "messages.yaml")


def _system_folder(folder: Path) -> None:
    (folder / "system.yaml").unlink()
    (folder / "system.yaml").mkdir()


WORLDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pairs without end": (_many_pairs, "LH113"),
    "tasks without end": (_many_tasks, "LH409"),
    "one task often": (_one_task_often, "LH206"),
    "files without end": (_many_files, "LH111"),
    "a loop of links": (_loop, "LH109"),
    "a stray loop of links": (_stray_loop, ""),
    "a pipe": (_pipe, "LH101"),
    "a folder for system.yaml": (_system_folder, "LH101"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if n == "one task often" else n for n in WORLDS]
)
def test_a_strange_folder(folder: Path, name: str) -> None:
    make, code = WORLDS[name]
    make(folder)
    found = codes(folder)
    assert code in found if code else not found, found


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_closed_file_and_a_closed_folder(folder: Path) -> None:
    (folder / "roles" / "light.yaml").chmod(0)
    assert codes(folder) == {"LH101"}
    (folder / "roles").chmod(0)
    try:
        assert codes(folder) == {"LH101"}
    finally:
        (folder / "roles").chmod(0o700)


@pytest.mark.parametrize(
    ("given_", "code"),
    [
        ({"n": -1}, "LH702"),
        ({"n": 0}, "LH702"),
        ({"n": 10_001}, "LH702"),
        ({"n": 10**30}, "LH702"),
        ({"n": "²"}, "LH702"),
        ({"n": "9" * 5000}, "LH702"),
        ({"n": ""}, "LH702"),
        ({"n": "__import__"}, "LH702"),
        ({"n": "true"}, "LH702"),
        ({"m" * 5000: 1}, "LH701"),
        ({"": 1}, "LH701"),
    ],
)
def test_strange_settings(folder: Path, given_: dict[str, str | int], code: str) -> None:
    (folder / "system.yaml").write_text(
        "system: small\nconstants: {n: {type: int, value: 1, max: 99}}\n"
        "roles: {light: {instances: n}}\nenvironment: {press: {to: light}}\n"
    )
    assert codes(folder, **given_) == {code}


@pytest.mark.parametrize("name", ["", "\0", "x" * 5000, "/dev/null", "\ud800", "leas", "/"])
def test_strange_names_of_systems(name: str) -> None:
    with pytest.raises(SpecError):
        load(name)


@pytest.mark.parametrize("text", ["7 // (" * 28 + "7" + ")" * 28, "7 % (" * 28 + "7" + ")" * 28])
def test_nested_divisions_stay_small_in_python(text: str) -> None:
    sink = Sink()
    e = parse(YamlNode("text", Place("x"), text), Scope(DeclaredNames({}, {}, {}, {}, {})), sink, INT)
    assert not sink.found
    words = source(e, Frame(None, {}))  # type: ignore[arg-type]
    assert len(words) < 10_000
    assert isinstance(function(words)((), (), 0), int)


# At random

MODEST = settings(
    max_examples=300,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


def survives(folder: Path) -> None:
    start = time.perf_counter()
    try:
        load(folder)
    except SpecError as error:
        assert str(error)  # noqa: PT017
    assert time.perf_counter() - start < SECONDS


@MODEST
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda t: t.encode("utf-8", "surrogatepass")))
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    folder = tmp_path_factory.mktemp("random")
    (folder / "system.yaml").write_bytes(text)
    survives(folder)


WORDS = [
    "to",
    "when",
    "set",
    "on",
    "tasks",
    "initial",
    "true",
    "{}",
    "[]",
    ":",
    "- ",
    "now",
    "self",
    "state",
    "none",
    "x",
    "-1",
    "9" * 30,
    "explore",
    "int",
    "set[client]",
    "map[client, int]",
    "event.x",
    "msg.sender",
    "ignore",
    "refuse",
    "any",
    "in",
    "not",
    "''",
    "(",
    ")",
    "instances",
    "all(r.state == a for r in client)",
    "old(state)",
    "\u00e9",
]


@MODEST
@given(data=st.data())
def test_valid_specs_with_random_slips(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(sorted(p.name for p in TRUTH.iterdir() if p.is_dir())))
    folder = tmp_path_factory.mktemp("slips")
    files = sorted(f for f in (TRUTH / chosen).rglob("*.yaml"))
    hit = data.draw(st.sampled_from(files))
    for file in files:
        lines = file.read_text().splitlines()
        if file == hit:
            for _ in range(data.draw(st.integers(1, 3))):
                slip(data, lines)
        target = folder / file.relative_to(TRUTH / chosen)
        target.parent.mkdir(exist_ok=True)
        target.write_text("\n".join(lines) + "\n")
    survives(folder)


def slip(data: st.DataObject, lines: list[str]) -> None:
    """Deletes, doubles, moves or rewrites a line."""
    if not lines:
        return
    at = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(st.integers(0, len(lines) - 1))
    match data.draw(st.sampled_from(["delete", "double", "exchange", "indent", "word", "token"])):
        case "delete":
            del lines[at]
        case "double":
            lines.insert(other, lines[at])
        case "exchange":
            lines[at], lines[other] = lines[other], lines[at]
        case "indent":
            lines[at] = data.draw(st.sampled_from(["", "  ", "    "])) + lines[at].lstrip()
        case "word":
            words = lines[at].split(" ")
            words[data.draw(st.integers(0, len(words) - 1))] = data.draw(st.sampled_from(WORDS))
            lines[at] = " ".join(words)
        case "token":
            cut = data.draw(st.integers(0, len(lines[at])))
            lines[at] = lines[at][:cut] + data.draw(st.sampled_from(WORDS)) + lines[at][cut:]
