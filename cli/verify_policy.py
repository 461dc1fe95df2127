"""`leasehold verify --policy`: the properties of a broker's policy, asked of what the broker has done."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from leasehold.checker.verify.policies import PolicyError, verify_policy
from leasehold.cli.common import Exit, print_json, say
from leasehold.cli.sources import read_sources
from leasehold.impl.policy import plugins
from leasehold.impl.policy.plugins import PluginError
from leasehold.impl.words import counted


def verify_policies(
    text: str, sources: tuple[str, ...], trust: Path | None, unsigned: bool, url: str, as_json: bool
) -> Exit:
    """Asks the properties of a policy, `NAME,setting=value`, of each broker whose events are given."""
    results = {}
    try:
        name, settings = plugins.written(text)
        for actor, events in read_sources(sources, trust, unsigned).items():
            results[actor] = verify_policy(name, events, settings, url)
    except (PolicyError, PluginError) as error:
        raise click.UsageError(str(error)) from None
    holds = not any(result.violations for result in results.values())
    if as_json:
        print_json({"policy": name, "holds": holds, "brokers": {actor: _plain(r) for actor, r in results.items()}})
        return Exit.HOLDS if holds else Exit.VIOLATED
    for actor, result in results.items():
        for violation in result.violations:
            say(str(violation), style="red")
            say(f"  {', '.join(violation.leases)}")
        verdict = "violated" if result.violations else "holds"
        say(f"{verdict}: {name} at {actor}, {counted(result.requests, 'request')} in {counted(result.cuts, 'step')}")
    return Exit.HOLDS if holds else Exit.VIOLATED


def _plain(result: Any) -> dict[str, Any]:
    return {**asdict(result), "covered": sorted(result.covered)}
