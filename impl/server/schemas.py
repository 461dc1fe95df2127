"""JSON Schemas of the files that an operator writes, made from the models that their loaders read by.

A schema says which keys there are, what each is for, and what type a value has. What only the loaders say: files that
must exist, names of policies and handlers and their settings, units and keys that come twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import cleandoc
from typing import Any, TypeAlias

import msgspec

from leasehold.impl.identity.trust_file import TrustSet
from leasehold.impl.lease.inventory import InventoryFile
from leasehold.impl.server.clients import ClientsFile
from leasehold.impl.server.config import Config
from leasehold.impl.server.peers import PeersFile
from leasehold.impl.transport.open import Listening

Schema: TypeAlias = dict[str, Any]

MODELS: Mapping[str, Any] = {
    "actor": Config,
    "inventory": InventoryFile,
    "trust": TrustSet,
    "peers": PeersFile,
    "clients": ClientsFile,
}
# Keys of a configuration whose mapping another module reads, by that module's model.
_WITHIN: Mapping[str, type] = {"inventory": InventoryFile, "listen": Listening}
_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def schema(kind: str) -> Schema:
    """The schema of a kind of file in MODELS."""
    models = [MODELS[kind], *(_WITHIN.values() if kind == "actor" else ())]
    (top, *within), defs = msgspec.json.schema_components(models, ref_template="#/$defs/{name}")
    for definition in defs.values():
        _described(definition)
    if kind == "actor":
        keys = defs["Config"]["properties"]
        for key, part in zip(_WITHIN, within, strict=True):
            given = {name: value for name, value in keys[key].items() if name in ("description", "default")}
            keys[key] = {**given, "anyOf": [{"type": "string"}, part]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{kind}.schema.json",
        **top,
        "$defs": dict(sorted(defs.items())),
    }


def _described(definition: Schema) -> None:
    """Takes the words of a class for its keys, and says that there are no others."""
    text = cleandoc(definition.get("description", ""))
    definition["description"] = text.partition("\n\nAttributes:")[0]
    for name, doc in _ATTRIBUTE.findall(text):
        if name in definition["properties"]:
            definition["properties"][name]["description"] = " ".join(doc.split())
    definition["additionalProperties"] = False
