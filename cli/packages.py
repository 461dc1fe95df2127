"""The verbs of packages: a site publishes versions of its handlers for the agents of its hosts, and chooses one."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from leasehold.cli.common import Exit, VerbGroup, console, json_option, print_json, verb
from leasehold.impl.agent import package as packages
from leasehold.impl.agent.package import Manifest, PackageError, RepositoryUnreachable
from leasehold.impl.identity.keys import KeyFault, PrivateKey
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.identity.trust import TrustFault
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.words import counted

_FOLDER = click.Path(path_type=Path, file_okay=False)
_REFUSALS = dict.fromkeys((PackageError, KeyFault, TrustFault), Exit.BAD_SPEC)


@click.group(
    cls=VerbGroup,
    sections={
        "Packages": {
            "publish": "packages:publish",
            "use": "packages:use",
            "list": "packages:list_",
        }
    },
)
def package() -> None:
    """Publish handlers for the agents of hosts, in versions that are signed and verified.

    A package is a folder with `handler.yaml`, which names a handler as the configuration of an actor does, and with
    what it needs; there {package} is the package's folder at a host, and {own} one for what the handler keeps.

    \b
    Example:  leasehold package publish nodes --to packages --key controller.key --as controller --use
              leasehold package list packages
    """  # noqa: D301 (click reads the character)


@verb(refusals=_REFUSALS)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--to", "repository", type=_FOLDER, required=True, help="The repository, which is made if need be.")
@click.option("--key", type=click.Path(path_type=Path), required=True, help="The private key of the controller.")
@click.option("--as", "publisher", default="controller", show_default=True, help="Its name in the hosts' trust sets.")
@click.option("--use", "used", is_flag=True, help="Let it act from now on.")
@json_option
def publish(folder: Path, repository: Path, key: Path, publisher: str, used: bool, as_json: bool) -> None:
    """Publish the FOLDER of a package as the next version.

    Example:  leasehold package publish nodes --to packages --key controller.key --use
    """
    manifest = packages.publish(folder, repository, publisher, PrivateKey.load(key))
    if used:
        packages.use(repository, manifest.number)
    if as_json:
        print_json({"version": manifest.number, "name": manifest.name, "content": manifest.content, "used": used})
    else:
        acts = "acts from now on" if used else f"`leasehold package use {repository} {manifest.number}` lets it act"
        console().print(f"version {manifest.number} of {manifest.name}, {counted(manifest.size, 'byte')}: {acts}")


@verb(refusals=_REFUSALS)
@click.argument("repository", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.argument("version", type=click.IntRange(1))
@json_option
def use(repository: Path, version: int, as_json: bool) -> None:
    """Let a VERSION act from now on; where a host refuses it, the one before does.

    What is up is changed when its lease is extended, or set up anew. An older version is chosen in the same way.

    Example:  leasehold package use packages 3
    """
    now = packages.use(repository, version)
    if as_json:
        print_json({"version": now.version, "before": now.before or None})
    else:
        before = f"; where it is refused, version {now.before} does" if now.before else ""
        console().print(f"version {now.version} acts from now on{before}")


@verb("list", refusals=_REFUSALS)
@click.argument("repository", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--trust", type=click.Path(path_type=Path), help="Verify each version by the trust set of a host.")
@json_option
def list_(repository: Path, trust: Path | None, as_json: bool) -> Exit | None:
    """List the versions of a REPOSITORY: which acts, and, with --trust, which a host would refuse, and why.

    Example:  leasehold package list packages --trust trust.yaml
    """
    chosen, rows = packages.current(repository), []
    for number in packages.versions(repository):
        manifest, refused = _judged(repository, number, trust)
        role = "" if chosen is None else {chosen.version: "acts", chosen.before: "before"}.get(number, "")
        rows.append(
            {
                "version": number,
                "name": manifest.name if manifest else None,
                "publisher": manifest.publisher if manifest else None,
                "content": manifest.content if manifest else None,
                "use": role or None,
                "refused": refused,
            }
        )
    if as_json:
        print_json(rows)
    else:
        table = Table(box=None, pad_edge=False)
        for heading in ("version", "name", "published by", "use", "refused"):
            table.add_column(heading)
        for row in rows:
            cells = (row["version"], row["name"], row["publisher"], row["use"], row["refused"])
            table.add_row(*("" if cell is None else str(cell) for cell in cells))
        console().print(table)
    return Exit.VIOLATED if any(row["refused"] for row in rows) else None


def _judged(repository: Path, number: int, trust: Path | None) -> tuple[Manifest | None, str | None]:
    """The manifest of a version, and why a host with a trust set would refuse it."""
    try:
        manifest = packages.manifest_of(repository, number)
        if trust is not None:
            packages.check_archive(str(repository), number, TrustFile(trust).current())
    except (PackageError, Refusal, RepositoryUnreachable) as error:
        return None, str(error)
    return manifest, None
