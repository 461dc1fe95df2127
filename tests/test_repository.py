"""The repository keeps its own promises: what is packaged, layered, documented and run."""

import configparser
import importlib.metadata
import importlib.resources
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
FOLDERS = {package: ROOT / folder for package, folder in SETUPTOOLS["package-dir"].items()}
LAYERS = ["cli", "reports", "checker", "faults", "impl", "spec"]

# Written so that this file does not match itself.
PRIVATE = re.compile(r"(?<![\w.-])/(?:work|root|home)/|\bpypi\.|pythonhosted\.|(?:index|extra-index)[-_]url")


def test_every_folder_with_modules_is_a_listed_package() -> None:
    found = {
        ".".join([package, *module.parent.relative_to(folder).parts])
        for package, folder in FOLDERS.items()
        for module in folder.rglob("*.py")
    }
    assert found == set(SETUPTOOLS["packages"])


def test_every_listed_package_says_what_it_is() -> None:
    for package in SETUPTOOLS["packages"]:
        parent = max((p for p in FOLDERS if f"{package}.".startswith(f"{p}.")), key=len)
        init = FOLDERS[parent].joinpath(*package.removeprefix(parent).strip(".").split("."), "__init__.py")
        assert init.read_text().startswith('"""'), init


def test_what_is_not_python_is_installed_too() -> None:
    shipped = {
        "leasehold": ["py.typed"],
        "leasehold.faults": ["*.yaml", "mutants/*.yaml"],
        "leasehold.reports": ["page/**/*.*"],
        "leasehold.spec": ["**/*.yaml", "language/*.json"],
    }
    missing = [
        str(path.relative_to(ROOT))
        for package, patterns in shipped.items()
        for pattern in patterns
        for path in FOLDERS[package].glob(pattern)
        if not importlib.resources.files(package).joinpath(*path.relative_to(FOLDERS[package]).parts).is_file()
    ]
    assert missing == [], "not in package-data"


def test_the_distribution_installs_one_name() -> None:
    names = importlib.metadata.distribution("leasehold").read_text("top_level.txt")
    assert names == "leasehold\n"


def test_every_sub_package_has_its_layer() -> None:
    contracts = {contract["name"]: contract for contract in PYPROJECT["tool"]["importlinter"]["contracts"]}
    layers = contracts["Imports go one way"]
    assert layers["type"] == "layers"
    assert layers["layers"] == LAYERS
    assert layers["exhaustive"] is True
    assert {f"leasehold.{layer}" for layer in LAYERS} == FOLDERS.keys() - {"leasehold"}

    checker = contracts["The explorer and the prover never see the implementation"]
    assert checker["type"] == "forbidden"
    pure = {path.stem for path in FOLDERS["leasehold.checker"].iterdir() if path.stem in {"explore", "prove"}}
    assert set(checker["source_modules"]) == {f"leasehold.checker.{name}" for name in pure}
    assert checker["forbidden_modules"] == ["leasehold.impl"]

    spec = contracts["The spec stands alone"]
    assert spec["type"] == "forbidden"
    assert spec["forbidden_modules"] == [f"leasehold.{layer}" for layer in LAYERS if layer != "spec"]


def test_every_tox_environment_says_what_it_does() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    environments = {section.removeprefix("testenv:") for section in tox.sections() if section.startswith("testenv:")}
    assert set(re.split(r",\s*", tox["tox"]["env_list"])) <= environments
    assert [name for name in sorted(environments) if not tox[f"testenv:{name}"].get("description")] == []


def test_ci_runs_what_the_readme_says() -> None:
    section = re.search(r"^## Test\n.*?^```\w*\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert section
    shown = subprocess.run(["bash", ROOT / ".ci/run", "--show"], capture_output=True, text=True, check=True)
    assert shown.stdout == section[1]
    assert "tox" in section[1]


def test_no_file_names_a_machine_or_a_registry() -> None:
    list_files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(list_files, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip(f"not a git checkout: {listed.stderr.strip()}")
    hits = [
        f"{name}:{number}: {line.strip()}"
        for name in filter(None, listed.stdout.split("\0"))
        if (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1)
        if PRIVATE.search(line)
    ]
    assert hits == []


def test_the_readme_shows_what_is_printed() -> None:
    """The first output in the README is that of `leasehold check lease`, but for what differs between machines."""
    shown = re.search(r"leasehold check lease\n```\n\n```\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    command = [sys.executable, "-m", "leasehold", "check", "lease"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert [_same(line) for line in shown[1].splitlines()] == [_same(line) for line in printed.rstrip().splitlines()]


def _same(line: str) -> str:
    """A line without trailing space, and without which engine searched, times and memory."""
    return re.sub(r"\w+ engine \(.*", "engine", line).rstrip()
