"""migrations.yaml: what is read of it, and what is said when it is wrong. It is compared with the new names alone."""

from pathlib import Path

import pytest

from leasehold.spec.language.diagnostics import SpecError
from leasehold.spec.language.load import load
from leasehold.spec.language.migration_rules import MigratedField, MigratedRole, Migration
from tests.systems import files_of

LAMP = files_of("spec/language/declare/systems/lamp")
SYSTEM = LAMP["system.yaml"]
LIGHT = LAMP["roles/light.yaml"]
DIGEST = "0123456789ab"


def read(folder: Path, rules: str) -> tuple[Migration, ...]:
    (folder / "roles").mkdir()
    (folder / "system.yaml").write_text(SYSTEM)
    (folder / "roles/light.yaml").write_text(
        LIGHT.replace("in: colour", "into: colour").replace("event.in", "event.into")
    )
    (folder / "migrations.yaml").write_text(rules)
    return load(folder).migrations


def test_rules_are_read_with_their_values(tmp_path: Path) -> None:
    rules = """
migrations:
  - from: 0123456789ab
    doc: Bulbs are lights now.
    roles:
      light:
        was: bulb
        states: {dark: off, bright: lit}
        fields:
          presses: {value: most - 1}
          shade: {initial: true}
          seen: {from: looked, cells: true}
          note: {value: hello}
        drop: [wear, tear]
        forget: dark
  - from: abcdef012345
"""
    fields = {
        "presses": MigratedField("presses", value=2),
        "shade": MigratedField("shade", initial=True),
        "seen": MigratedField("seen", "looked", cells=True, filled=True),
        "note": MigratedField("note", value="hello"),
    }
    role = MigratedRole(
        "light", "bulb", {"dark": "off", "bright": "lit"}, fields, frozenset({"wear", "tear"}), frozenset({"dark"})
    )
    first, second = read(tmp_path, rules)
    assert first == Migration(DIGEST, {"light": role}, "Bulbs are lights now.")
    assert second == Migration("abcdef012345")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("from: 0123", "LH203: `0123` does not begin a digest\n  remedy: write 12 to 64 digits"),
        ("form: 0123456789ab", "LH201: migrations: `form` is not a key of a migration\n  did you mean `from`?"),
        (
            "from: 0123456789ab, roles: {ligth: {}}",
            "LH503: there is no role `ligth` in this specification\n  did you mean",
        ),
        (
            "from: 0123456789ab, roles: {light: {states: {dark: of}}}",
            "LH404: a light has no state `of`\n  did you mean `off",
        ),
        (
            "from: 0123456789ab, roles: {light: {fields: {press: {initial: true}}}}",
            "LH305: a light has no field `press`\n  did you mean `presses`?",
        ),
        (
            "from: 0123456789ab, roles: {light: {fields: {presses: {}}}}",
            "LH202: `presses` takes its value from nowhere; one source is needed\n  remedy: write `from: OLD_FIELD`",
        ),
        (
            "from: 0123456789ab, roles: {light: {fields: {presses: {from: old, value: 1}}}}",
            "LH204: `presses` takes its value from from, value; one source is needed",
        ),
        (
            "from: 0123456789ab, roles: {light: {fields: {presses: {value: 4}}}}",
            "LH307: `presses` would be 4, outside of its bounds",
        ),
        (
            "from: 0123456789ab, roles: {light: {fields: {shade: {value: 4}}}}",
            "LH303: ",
        ),
        (
            "from: 0123456789ab, roles: {light: {fields: {shade: {from: hue, cells: red}}}}",
            "LH204: `shade`: `cells` belongs to a map that is taken `from` an older one",
        ),
        (
            "from: 0123456789ab, roles: {light: {fields: {shade: {from: hue}}, drop: hue}}",
            "LH204: `hue` is given up under `drop`, and `shade` takes its value",
        ),
        (
            "from: 0123456789ab}, {from: 0123456789abcd",
            "LH206: there is a migration from `0123456789ab` already, at line 1",
        ),
        (
            "from: 0123456789abcd}, {from: 0123456789ab",
            "LH206: there is a migration from `0123456789ab` already, at line 1",
        ),
        (
            "from: 0123456789ab}, {from: 0123456789ac}, {from: 0123456789ab",
            "LH206: there is a migration from `0123456789ab` already, at line 1",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, rule: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        read(tmp_path, f"migrations: [{{{rule}}}]\n")
    assert f"{tmp_path}/migrations.yaml:1:" in str(error.value)
    assert f"error {said}" in str(error.value)
    assert sum(d.severity == "error" for d in error.value.diagnostics) == 1
