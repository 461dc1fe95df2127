"""`leasehold schema`: the JSON Schemas of the files that people write, for their editors."""

from __future__ import annotations

import click

from leasehold.cli.common import print_json, verb
from leasehold.impl.server.schemas import MODELS
from leasehold.impl.server.schemas import schema as schema_of
from leasehold.spec.language.read.schema import schema as schema_of_specifications

SPECIFICATION = "specification"


@verb()
@click.argument("kind", type=click.Choice([SPECIFICATION, *MODELS]))
def schema(kind: str) -> None:
    """Print the JSON Schema of the files of a KIND, with which an editor completes and checks them.

    `specification` is for the files of a system; the others are for an actor: its configuration, its inventory,
    its trust set, and the file of its peers.

    Example:  leasehold schema actor > actor.schema.json
    """
    print_json(schema_of_specifications() if kind == SPECIFICATION else schema_of(kind))
