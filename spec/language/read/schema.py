"""The JSON Schema of specification files, for editors: `leasehold schema specification` prints it.

It is made from keys.yaml and lists no key of its own, so an editor and the loader agree on every one. What
an expression means, and whether a name exists, is beyond a schema: `leasehold lint` says that.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from leasehold.spec.language.read import shape
from leasehold.spec.language.read.shape_check import FLAGS
from leasehold.spec.language.read.source import INTEGER, NAME, RESERVED

Schema: TypeAlias = dict[str, Any]


def _pattern(expression: re.Pattern[str]) -> str:
    return "^" + expression.pattern.replace(r"\Z", "$")


# The schema of each kind of text: an editor reads `3` as a number and `true` as a boolean where the loader sees texts.
_WORD: Schema = {"type": ["string", "number", "boolean"], "pattern": r"\S"}
_TEXTS: dict[str, Schema] = {
    "text": {"type": ["string", "number", "boolean", "null"]},
    "name": {"type": "string", "pattern": _pattern(NAME), "not": {"enum": sorted(RESERVED)}},
    "flag": {"enum": [True, False, "true", "false"]},
    "fairness": {"enum": [True, False, "true", "false", "strong"]},
    "owner": {"enum": list(shape.CHOICES["owner"])},
    "fate": {"enum": list(shape.CHOICES["fate"])},
    "number": {"type": ["integer", "string"], "pattern": _pattern(INTEGER)},
    "condition": {**_WORD, "not": {"enum": sorted(FLAGS)}},
    "expression": _WORD,
    "type": _WORD,
}


def schema() -> Schema:
    """One schema for all files: which kind a file is, its first key tells."""
    maker = _SchemaMaker()
    files = {kind: maker.of(record) for kind, record in shape.FILES.items()}
    rest: Schema = {"anyOf": [files["invariants"], maker.of(shape.PART)]}
    for kind, record in reversed(list(shape.FILES.items())):
        rest = {"if": {"required": [next(iter(record.keys))]}, "then": files[kind], "else": rest}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "leasehold.schema.json",
        "title": "A file of a Leasehold specification",
        "type": "object",
        **rest,
        "$defs": dict(sorted(maker.defs.items())),
    }


def definition(record: shape.RecordShape) -> str:
    """The name of a record under `$defs`: `a role of the system` is `role_of_the_system`."""
    return re.sub(r"\A(an?|the) ", "", record.title).replace(" ", "_")


class _SchemaMaker:
    def __init__(self) -> None:
        self.defs: dict[str, Schema] = {}

    def of(self, wanted: shape.YamlShape) -> Schema:
        match wanted:
            case shape.TextShape(of=of):
                name = "name" if of in shape.NAMES else of if of in _TEXTS else "text"
                self.defs[f"{name}_text"] = _TEXTS[name]
                return {"$ref": f"#/$defs/{name}_text"}
            case shape.ListShape(of=inner):
                return {"type": "array", "items": self.of(inner)}
            case shape.MappingShape(of=inner, keys=keys):
                mapping: Schema = {"type": "object", "additionalProperties": self.of(inner)}
                if keys in shape.NAMES:
                    mapping["propertyNames"] = self.of(shape.NAME_SHAPE)
                return mapping
            case shape.RecordShape():
                return self._record(wanted)
            case shape.Alternatives(choices=choices):
                return {"anyOf": [self.of(c) for c in choices]}

    def _record(self, record: shape.RecordShape) -> Schema:
        name = definition(record)
        if name not in self.defs:
            self.defs[name] = {"title": record.title, "type": "object"}
            self.defs[name] |= {
                "properties": {n: {"description": k.doc, **self.of(k.shape)} for n, k in record.keys.items()},
                "required": [n for n, k in record.keys.items() if k.required],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{name}"}
