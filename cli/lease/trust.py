"""The verbs that trust actors of the lease's roles."""

from __future__ import annotations

from pathlib import Path

import click

from leasehold.cli.trust import add_options, add_trusted, trust_verb


def _adding(role: str, words: str, example: str) -> click.Command:
    """The verb that trusts actors of a role of the lease."""
    named = f"add-{role.replace('_', '-')}"
    told = (
        f"Trust {words} NAME, who signs with KEY.\n\n"
        "KEY is its public key, @FILE, or a file that holds it; of a private key file only the public part is taken. "
        "The trust set is made if it is not there. Exactly the same again changes nothing.\n\n"
        f"Example:  leasehold {named} {example}"
    )

    @trust_verb(named, help=told)
    @add_options
    def adding(name: str, key: str, address: str, not_after: str | None, path: Path, as_json: bool) -> None:
        add_trusted(role, name, key, address, not_after, path, as_json)

    return adding


add_broker = _adding("broker", "a broker", "market market.pub --address http://10.0.0.8:8471")
add_authority = _adding("authority", "an authority, a site,", "site site.pub --address http://10.0.0.9:8472")
add_service_manager = _adding(
    "service_manager", "a service manager", "tenant tenant.pub --address http://10.0.0.7:8470"
)
