"""Prints docs/reference/drivers.md: the settings of drivers and of composed units, from their own texts."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from leasehold.impl.drivers.composed import ComposedHandler, SnapshotSettings
from leasehold.impl.drivers.composition import BUILT_IN, DeclaredProperty
from leasehold.impl.drivers.images import Image
from leasehold.impl.drivers.tools import PACKAGES
from leasehold.impl.handlers.by_type import ByTypeHandler
from leasehold.impl.policy import plugins

HEAD = """# Drivers and composed units

A *driver* makes one kind of thing on a machine, such as a volume; the handler `composed` makes a unit of several, and
`by_type` chooses a handler for each unit. [The guide](../howto/lease_real_things.md) has an example with all of them,
and shows how to write a driver. This page is generated from the code (`python tests/drift.py --write`).
"""
COMPOSED = """## The handler `composed`

Knows `setup`, `modify` and `teardown`. Parts are made in their order, and removed in reverse order. A part that
cannot be made has those of its task removed, and what the action had changed is changed back. An action with an older
number is refused. An actor may be killed at any moment of it: the next action of its next incarnation is the one that
counts, the same or another, and it ends the programs that the dead one has left at work first
([tests](../../tests/impl/drivers/test_killed.py)).
"""
_NAMES = ", ".join(f"`{name}`" for name in BUILT_IN)
PARTS = f"""A part is a driver with its settings, as in `- volume: {{size: 64MiB}}`, and `as: NAME` where a driver makes
several. In a setting, `{{NAME}}` stands for a property that is declared,
for a fact of an earlier part as `{{PART.FACT}}`, or
for one of {_NAMES}; `{{{{` is a bracket. A setting that is one name alone keeps
the type of its value.

Settings that a driver changes while its thing is up take effect with `modify`; all others stay as they are until the
lease is over, also where a unit that was lost is set up again. So a change of the configuration is for later leases.
"""
PROPERTY = """### Properties

Each property that settings use is declared under `properties`. `from: holder` is what the holder of the lease says
(`leasehold demand --configuration`), `from: broker` what the ticket says, `from: site` what the inventory says of the
unit. The inventory also counts where holder or broker say nothing of it. Whatever else a holder says is not read.
"""
AFTER = """## Names on the machine

All that a unit has is named `lh-DIGEST-UNIT-PART`, with a digest of the path of `directory`: network namespaces,
control groups, containers, domains. Interfaces have 13 letters of a digest, the unit's name as their alias, and the
link group 7845 (`ip link show group 7845`), as have the bridges that are made here. In `directory`, the unit's folder
has its parts' files and `made.json`, the list of what there may be of it; `.images`, `.snapshots` and `.runc` are the
site's. A directory that is moved has other names: do that while no unit is up.

## The kernel's log

The detector `kernel_log` follows `/dev/kmsg`. A unit is lost whose process the kernel has killed for want of memory,
once no process of that part is left (else its guest goes on, and the log says so), and a unit in whose disk the kernel
has found an error; an error of the disk that has `directory` is of all units. The site sets a unit that is lost up
again, and takes it for up if it finds it so.

```yaml
raises: {unit: [lost]}
detectors:
  kernel: {name: kernel_log, units: units}   # the `directory` of the handler
```

It takes root, or CAP_SYSLOG. On the host of an [agent](../howto/agents.md#when-a-host-fails), `control` names the
agent's control socket, and `raises` is `{agent: [lost]}`. A unit is not told of again within
`pause_seconds` (5).

## Limits

- Drivers need root, but for `process` and `libvirt`.
- `container`: root in a container is the machine's root without most of its capabilities; a site approves its images.
  Archives are plain root file systems (as of `docker export`), without layers. Sockets and devices in them are
  refused, and setuid marks taken away.
- `volume`: it never shrinks. ext4 grows while it is mounted with CAP_SYS_RESOURCE alone; xfs (300 MiB at least) and
  btrfs (256 MiB) do with CAP_SYS_ADMIN. A mount namespace of another process that has a copy of the mount keeps the
  loop device for as long as it is there; the file is written to its end, and goes or is kept all the same.
- `network`: IPv4; there is no address translation and no route beyond the bridge. A rate is kept by the token bucket
  (tbf) where the kernel has it.
- `cgroup`: versions 1 and 2. Only version 1 was there to be tested; of version 2, what is written is.
- `libvirt`: by `virsh`. libvirt's test driver keeps its domains within its daemon alone (`test+unix:///default`).
- A snapshot is of the holder that the lease's name begins with, for which its signature vouches; clients of one
  holder share them. What does not fit into the quota is not kept, which the teardown's words say."""


def main() -> None:
    print("\n".join(line.rstrip(" ") for line in page()))


def page() -> Iterator[str]:
    yield HEAD
    yield "## Drivers\n"
    for name, source in plugins.BUILT_IN["driver"].items():
        module, _, kind = source.partition(":")
        yield from driver(name, importlib.import_module(module), getattr(importlib.import_module(module), kind))
    yield COMPOSED
    yield from table(documented(inspect.getdoc(ComposedHandler) or "", "Args"), {}, without=("at",))
    yield PARTS
    yield PROPERTY
    yield from table(attributes(DeclaredProperty), DeclaredProperty)
    yield "### Images\n"
    yield first(importlib.import_module(Image.__module__).__doc__ or "")
    yield from table(attributes(Image), Image)
    yield "### Snapshots\n"
    yield from table(attributes(SnapshotSettings), SnapshotSettings)
    yield "## The handler `by_type`\n"
    yield first(importlib.import_module(ByTypeHandler.__module__).__doc__ or "")
    yield from table(documented(inspect.getdoc(ByTypeHandler) or "", "Args"), {})
    yield "## Programs\n"
    yield "An actor with a driver whose programs are missing does not start, and names the packages to install.\n"
    yield "| program | package |"
    yield "|---|---|"
    yield from (f"| `{program}` | {package} |" for program, package in PACKAGES.items())
    yield ""
    yield AFTER.rstrip()


def driver(name: str, module: Any, kind: Any) -> Iterator[str]:
    """The section of a driver."""
    yield f"### {name}\n"
    text = inspect.getdoc(module) or ""
    yield re.sub(r"^The driver `\w+`: (.)", lambda m: m[1].upper(), text.split("\n\n")[0]).replace("\n", " ") + "\n"
    yield from table(attributes(kind.settings), kind.settings, changes=kind.changes)
    yield f"Facts for later parts and for holders: {', '.join(f'`{name}.{fact}`' for fact in kind.facts)}.\n"


def attributes(kind: type[Struct]) -> dict[str, str]:
    return documented(inspect.getdoc(kind) or "", "Attributes")


def documented(text: str, head: str) -> dict[str, str]:
    """The entries of a section of a docstring."""
    section = text.partition(f"{head}:\n")[2].split("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", words) for name, words in entries}


def table(
    words: dict[str, str], kind: type[Struct] | dict[str, Any], changes: Any = None, without: tuple[str, ...] = ()
) -> Iterator[str]:
    """The settings, with their defaults and whether they can be changed."""
    fields = {} if isinstance(kind, dict) else {field.name: field for field in msgspec.structs.fields(kind)}
    columns = [
        "setting",
        "meaning",
        *(["default"] if fields else []),
        *(["changed while up"] if changes is not None else []),
    ]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for name, meaning in words.items():
        if name in without:
            continue
        shown = fields[name].encode_name if fields else name
        cells = [f"`{shown}`", meaning.rstrip(".").replace("|", "\\|")]
        if fields:
            default = fields[name].default
            if fields[name].default_factory is not msgspec.NODEFAULT:
                default = fields[name].default_factory()
            none = default is UNSET or default == ""
            cells.append("required" if fields[name].required else "none" if none else f"`{default}`")
        if changes is not None:
            cells.append("yes" if name in changes else "")
        yield f"| {' | '.join(cells)} |"
    yield ""


def first(text: str) -> str:
    """A module's summary, with its example."""
    summary, _, rest = text.strip().partition("\n\n")
    example = rest.partition("\n\nTheory")[0]
    lines = "\n".join(line[4:] for line in example.splitlines())
    return f"{summary}\n\n<!-- shown -->\n```yaml\n{lines}\n```\n"


if __name__ == "__main__":
    main()
