"""`python -m tests.campaigns.infrastructure`: each failure of infrastructure, made real on hosts of its own.

It exits with 1 when something is wrong. `--page` writes the report; a failure that this machine cannot make real is
skipped there by name, with the reason. It takes root, and some fifteen minutes on two cores.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import click

from leasehold.checker.recovery.lease.processes.infrastructure import lacking
from leasehold.faults.model.catalogue import InfrastructureFault, infrastructure

ABOUT = """
Each failure below a site that the [catalogue](../docs/reference/faults.md#infrastructure) has is made real, by itself,
on two hosts with two units each: every host has processes, mounts, a network, a control group and a disk of its own, an
agent, and servers in containers. The first host fails, or the site's clock. A judge fetches a page from each server
over its own address, and asks the kernel what is left in the end; two verifiers ask every property of the specification
of the events of all actors, and whether each step is one of it. `python -m tests.campaigns.infrastructure --page
reports/infrastructure.md` repeats the runs and writes this page; `leasehold demo --driver container --fail NAME`
is one of them.
"""
SETTINGS = """
Agents look at their units each second, and two misses count. The site asks each agent for a sign of life each second,
and takes its units for lost after twelve seconds of silence. A handler is given up by its agent after twice six
seconds, and by the site after twenty-five. A server may be without
an answer for a hundred seconds. The judge looks three times a second, if the machine lets it.
"""
COUNTS = ("violations", "findings", "leaked")


def play(fault: InfrastructureFault) -> dict[str, Any]:
    """One failure; what came of it, or why it is skipped."""
    if lack := lacking(fault.name):
        return {"name": fault.name, "skipped": lack}
    command = [sys.executable, "-m", "leasehold", "demo", "--driver", "container", "--fail", fault.name, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if not ended.stdout:
        raise click.ClickException(f"{fault.name}: {ended.stderr}")
    record: dict[str, Any] = json.loads(ended.stdout)
    return record


def wrong(record: Mapping[str, Any]) -> bool:
    """Returns whether something is wrong with a run that was not skipped."""
    return any(record.get(name) for name in COUNTS)


def page(records: Sequence[Mapping[str, Any]]) -> str:
    """The report."""
    text = "\n".join(_lines({record["name"]: record for record in records})) + "\n"
    return re.sub(r"(/[\w.-]+)*/leasehold-demo-\w+/", "", text).replace(sys.executable, "python")


def _lines(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "# When infrastructure fails"
    yield ""
    yield fill(" ".join(ABOUT.split()), 120, break_long_words=False, break_on_hyphens=False)
    yield ""
    heads = ("failure", "row of Table 2", "noticed by, after", "servers without an answer", "mended after", *COUNTS)
    yield f"| {' | '.join(heads)} |"
    yield "|---|---:|---|---|---:|---:|---:|---:|"
    for fault in infrastructure().values():
        record = records[fault.name]
        row = fault.row or "–"
        if "skipped" in record:
            yield f"| `{fault.name}` | {row} | skipped: {record['skipped']} | | | | | |"
            continue
        first = next((one for one in record["noticed"] if one["by"] in fault.noticed), None)
        noticed = f"{first['by']}, {first['seconds']} s" if first else "nobody"
        outage = "–" if record["outage"] is None else "from {} to {} s".format(*record["outage"])
        counts = " | ".join(str(len(record[name])) for name in COUNTS)
        yield f"| [{fault.name}](#{fault.name}) | {row} | {noticed} | {outage} | {record['mended']} s | {counts} |"
    yield ""
    yield fill(" ".join(SETTINGS.split()), 120, break_long_words=False, break_on_hyphens=False)
    for fault in infrastructure().values():
        yield from _section(fault, records[fault.name])


def _section(fault: InfrastructureFault, record: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"## {fault.name}"
    yield ""
    yield f"{fault.doc} {fault.host}"
    yield ""
    if "skipped" in record:
        yield f"Skipped: {record['skipped']}."
        return
    if record["evidence"]:
        yield f"- That it was so: {record['evidence']}."
    for one in record["noticed"]:
        yield f"- Noticed by {one['by']} after {one['seconds']} s: {one['words']}"
    yield f"- Repair: {fault.repair}."
    yield f"- What the holder said: {'; '.join(f'after {at} s {words}' for at, words in record['saw'])}."
    for name in COUNTS:
        for one in record[name]:
            yield f"- {name}: {one}"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*infrastructure()]))
@click.option("--page", "to", type=click.Path(path_type=Path, dir_okay=False), help="Write the report there.")
@click.option(
    "--records", type=click.Path(path_type=Path, dir_okay=False), help="Keep what came of each there, as JSON."
)
def main(names: tuple[str, ...], to: Path | None, records: Path | None) -> None:
    """Let each part of the infrastructure fail, or those that are named."""
    known = json.loads(records.read_text()) if records is not None and records.exists() else {}
    for name in names or infrastructure():
        record = known[name] = play(infrastructure()[name])
        click.echo(f"{name}: {record.get('skipped') or {one: record[one] for one in COUNTS}}")
        if records is not None:
            records.write_text(json.dumps(known, indent=1))
    if to is not None:
        to.write_text(page([*known.values()]))
    sys.exit(1 if any(map(wrong, known.values())) else 0)


if __name__ == "__main__":
    main()
