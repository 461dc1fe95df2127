"""Lay the packages out under their import names, as links: ``python tests/stage.py FOLDER``.

The sub-packages of leasehold are top-level folders, mapped in pyproject.toml, so a tool that finds source by its path
(mypy, import-linter) does not see them in the checkout. FOLDER/leasehold shows them as an installation would; nothing
is built or copied, and the path in a tool's message opens the checkout's own file.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def stage(folder: Path) -> None:
    package_dir = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    top = folder / "leasehold"
    top.mkdir(parents=True)
    for file in (ROOT / package_dir.pop("leasehold")).iterdir():
        (top / file.name).symlink_to(file)
    for package, source in package_dir.items():
        (top / package.removeprefix("leasehold.")).symlink_to(ROOT / source)


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
