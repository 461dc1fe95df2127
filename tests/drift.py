"""Hold generated files to their generators: ``python tests/drift.py --check`` (the default) or ``--write``."""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from leasehold.impl.server.schemas import MODELS
from leasehold.reports.write import committed, differences, renew
from leasehold.spec import SHIPPED

ROOT = Path(__file__).resolve().parents[1]

# A file's path in the repository, and the arguments to Python that print its content.
# What takes longest comes first, so that no core is idle in the end.
GENERATED: list[tuple[str, list[str]]] = [
    ("docs/tutorial.md", ["tests/tutorial/render.py"]),
    ("reports/policies.html", ["-m", "tests.checker.policies.page"]),
    ("docs/lease_cells.md", ["tests/lease_cells.py"]),
    ("spec/language/leasehold.schema.json", ["-m", "leasehold", "schema", "specification"]),
    *((f"docs/reference/schemas/{kind}.schema.json", ["-m", "leasehold", "schema", kind]) for kind in MODELS),
    ("docs/reference/diagnostics.md", ["tests/reference.py", "diagnostics"]),
    ("docs/reference/keys.md", ["tests/reference.py", "keys"]),
    ("docs/reference/faults.md", ["tests/reference.py", "faults"]),
    ("docs/reference/drivers.md", ["-m", "tests.impl.drivers.page"]),
    ("docs/reference/command_line.md", ["tests/cli/reference.py"]),
    ("docs/reference/attacks.md", ["-m", "tests.impl.attacks.page"]),
    ("docs/mutants.md", ["-m", "tests.mutants.page"]),
    ("docs/pictures/saga.svg", ["-m", "tests.examples.saga_picture"]),
    ("docs/invariants.md", ["-m", "tests.invariants.page"]),
]
# A folder's path, and the arguments to Python that print all its Markdown files as JSON, by name.
FOLDERS: list[tuple[str, list[str]]] = [("docs/invariants", ["-m", "tests.invariants.page", "--pages"])]


def printed(arguments: list[str]) -> bytes:
    """The output of Python with these arguments."""
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare generated files with what their generators print.")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="fail if a file differs (the default)")
    mode.add_argument("--write", action="store_true", help="renew the files that differ")
    write = parser.parse_args().write

    drifted = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # The reports are made here meanwhile: the tutorial's commands alone take about as long.
        printing = pool.map(printed, (arguments for _, arguments in GENERATED + FOLDERS))
        reports = {name: committed(name) for name in SHIPPED}
        contents = list(printing)
    files: dict[str, bytes | None] = {name: content for (name, _), content in zip(GENERATED, contents, strict=False)}
    for (folder, _), content in zip(FOLDERS, contents[len(GENERATED) :], strict=True):
        files |= {str(path.relative_to(ROOT)): None for path in (ROOT / folder).glob("*.md")}
        files |= {f"{folder}/{name}.md": text.encode() for name, text in json.loads(content).items()}
    for name, wanted in files.items():
        path = ROOT / name
        if path.is_file() and path.read_bytes() == wanted:
            continue
        drifted += 1
        print(f"{name}: {'renewed' if write else 'differs from its generator; run python tests/drift.py --write'}")
        if not write:
            continue
        if wanted is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted)
    for name, report in reports.items():
        place = ROOT / "reports" / "shipped" / name
        for difference in differences(place, report):
            drifted += 1
            print(f"{difference}: {'renewed' if write else 'run python tests/drift.py --write'}")
        if write:
            renew(place, report)
    done = "renewed" if write else "drifted"
    print(f"{len(files)} generated files and the reports of {len(SHIPPED)} systems, {drifted} {done}")
    return 1 if drifted and not write else 0


if __name__ == "__main__":
    sys.exit(main())
