"""The JSON Schema says of every file what the loader's own shapes say."""

import json
import re
from pathlib import Path
from typing import ClassVar

import jsonschema
import pytest
import yaml

from leasehold.spec.language import table
from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.load import SHIPPED, shipped_folder
from leasehold.spec.language.read import shape, shape_check
from leasehold.spec.language.read.schema import definition, schema
from leasehold.spec.language.read.source import read_file

TESTS = Path(__file__).resolve().parents[3]
SCHEMA = schema()
KINDS = {f"{name}.yaml": shape.FILES[name] for name in ("system", "messages", "invariants", "expected", "mutation")}


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML 1.2 as editors read it: `on` and `yes` are words."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, object]]]] = {}


for tag, words, first in (
    ("bool", r"true|false", "tf"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("null", r"~|null|", ["~", "n", ""]),
):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{words})\\Z"), first)


def kind_of(file: Path) -> shape.RecordShape:
    return shape.FILES["role"] if file.parent.name == "roles" else KINDS.get(file.name, shape.PART)


def right(*folders: Path) -> list[Path]:
    return [file for folder in folders for file in sorted(folder.rglob("*.yaml"))]


def named(value: object) -> object:
    if isinstance(value, dict):
        return {str(k): named(v) for k, v in value.items()}
    return [named(v) for v in value] if isinstance(value, list) else value


def faults(file: Path, within: dict[str, object]) -> list[str]:
    content = named(yaml.load(file.read_text(), Loader))
    return [e.message for e in jsonschema.Draft202012Validator(within).iter_errors(content)]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_record_has_a_name_of_its_own() -> None:
    titles = [v["title"] for v in SCHEMA["$defs"].values() if "title" in v]
    records = [*(shape.record(title) for title in table("keys.yaml")["records"]), shape.PART]
    assert len({definition(r) for r in records}) == len(records) == len(titles)


@pytest.mark.parametrize("file", right(TESTS / "truth", *map(shipped_folder, SHIPPED)), ids=lambda f: str(f)[-40:])
def test_good_files_are_good(file: Path) -> None:
    assert faults(file, SCHEMA) == []


@pytest.mark.parametrize("file", right(TESTS / "bad_specs"), ids=lambda f: "/".join(f.parts[-3:]))
def test_bad_files_are_bad_where_their_shape_is(file: Path) -> None:
    sink = Sink()
    node = read_file(file, file.name, sink) if file.is_file() else None
    if node is None or sink.found:
        pytest.skip("cannot be read, or has a key twice")
    record = kind_of(file)
    whole = {"$ref": f"#/$defs/{definition(record)}", "$defs": SCHEMA["$defs"]}
    assert bool(faults(file, whole)) == (not shape_check.check_shape(node, record, sink))
    assert bool(faults(file, SCHEMA)) == bool(sink.found)


def test_the_editor_shows_what_a_key_is_for() -> None:
    role = json.loads(json.dumps(SCHEMA))["$defs"]["role"]["properties"]
    assert role["subsidiary"]["description"] == shape.FILES["role"].keys["subsidiary"].doc
