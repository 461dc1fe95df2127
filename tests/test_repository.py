"""The repository keeps its own promises: what is packaged, layered, documented and run."""

import ast
import configparser
import importlib.metadata
import importlib.resources
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx
import pytest

from leasehold import spec

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LAYERS = ["cli", "reports", "checker", "faults", "impl", "spec"]
FOLDERS = {"leasehold": ROOT / "src" / "leasehold"} | {f"leasehold.{layer}": ROOT / layer for layer in LAYERS}

# Written so that this file does not match itself.
PRIVATE = re.compile(
    r"(?<![\w.-])/(?:work|root(?!/(?:\.ssh|data)\b)|home)/|\bpypi\.|pythonhosted\.|(?:index|extra-index)[-_]url"
)

# A document by a word in capitals, and its section; no file of the repository has such a name.
CITED = re.compile(r"\b[A-Z]{4,}(?:\.\w+)?, section \d|\bDESIG[N]\b")


@cache
def _files() -> tuple[str, ...]:
    """Returns what git tracks, or would."""
    list_files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(list_files, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip(f"not a git checkout: {listed.stderr.strip()}")
    return tuple(filter(None, listed.stdout.split("\0")))


def _found(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Everything in the files that a pattern finds, after its file and line."""
    for name in _files():
        if (ROOT / name).is_file():
            text = (ROOT / name).read_text(errors="replace")
            for hit in pattern.finditer(text):
                yield f"{name}:{text.count(chr(10), 0, hit.start()) + 1}", hit[0]


def _prose(file: Path) -> str:
    """A Markdown file without its code."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", file.read_text(), flags=re.DOTALL | re.MULTILINE)


def _anchors(file: Path) -> set[str]:
    """The anchors of a Markdown file's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_top_level_folder_is_linked_into_the_package() -> None:
    links = {path.name: path.resolve() for path in FOLDERS["leasehold"].iterdir() if path.is_symlink()}
    assert links == {layer: ROOT / layer for layer in LAYERS}


def test_every_folder_with_modules_is_a_package_that_says_what_it_is() -> None:
    for layer in LAYERS:
        for folder in {module.parent for module in (ROOT / layer).rglob("*.py")}:
            assert (folder / "__init__.py").read_text().startswith('"""'), folder


# By suffix the kinds of files that are written or generated here; what an editor or a merge leaves behind is none.
KINDS = {
    "",
    ".c",
    ".cfg",
    ".css",
    ".db",
    ".dot",
    ".h",
    ".html",
    ".ini",
    ".js",
    ".json",
    ".key",
    ".mark",
    ".md",
    ".mmd",
    ".png",
    ".py",
    ".sh",
    ".sarif",
    ".sql",
    ".svg",
    ".tla",
    ".toml",
    ".txt",
    ".typed",
    ".xml",
    ".yaml",
    ".yml",
}


def test_no_file_is_left_over() -> None:
    assert [name for name in _files() if Path(name).suffix not in KINDS] == []


def test_systems_are_yaml_and_nothing_else() -> None:
    files = [path for path in (ROOT / "spec" / "systems").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".yaml"}


def test_what_is_not_python_is_installed_too() -> None:
    shipped = {
        "leasehold": ["py.typed"],
        "leasehold.checker": ["**/*.yaml", "**/*.sh"],
        "leasehold.faults": ["model/*.yaml"],
        "leasehold.impl": ["**/*.yaml"],
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

    ends = "recovery checker of any system know nothing of leases", "of any system know nothing of leases themselves"
    named = [module for name, one in contracts.items() if name.endswith(ends) for module in one["source_modules"]]
    parts = {path.stem for path in (FOLDERS["leasehold.checker"] / "recovery").iterdir()}
    assert {f"leasehold.checker.recovery.{p}" for p in parts - {"__init__", "__pycache__", "lease"}} <= {*named}

    spec = contracts["The spec stands alone"]
    assert spec["type"] == "forbidden"
    assert spec["forbidden_modules"] == [f"leasehold.{layer}" for layer in LAYERS if layer != "spec"]


# Where only leases, their brokers' policies, delegations and agents are spoken of.
ROOMS = (
    "impl/lease/",
    "impl/agent/",
    "checker/policies/",
    "checker/recovery/lease/",
    "checker/verify/policies.py",
    "cli/delegations.py",
    "cli/lease/",
    "cli/packages.py",
    "cli/verify_policy.py",
    "faults/simulation/lease.py",
)
ROLES_OF_THE_LEASE = {"authority", "broker", "service_manager"}
# What names something of a shipped system elsewhere.
NAMED = {
    "checker/explore/symmetry.py": {"site"},  # a place in a state
    "checker/handlers/player.py": {"site"},  # who asks a handler
    "checker/handlers/shipped.py": {"site"},
    "checker/handlers/target.py": {"site"},
    "cli/client.py": {"broker", "site"},  # options of a demand
    "cli/leases.py": {"site"},  # a property of every unit: whose it is
    "impl/drivers/composed.py": {"site"},  # whose units are composed
    "impl/drivers/composition.py": {"broker", "site"},  # who says a property
    "impl/drivers/container.py": {"site"},
    "impl/drivers/site.py": {"site"},
    "impl/drivers/volume.py": {"site"},
    "impl/handlers/handler.py": {"site"},  # a property of every unit
    "impl/policy/plugins.py": {*ROLES_OF_THE_LEASE, "site"},  # where the policies and handlers are that are shipped
    "impl/server/build.py": {"authority", "broker", "site"},  # whose units an inventory has
    "impl/server/control.py": {"broker", "site"},  # options of a demand
    "impl/transport/open.py": {"authority"},  # that signs certificates
}
# A unit is any handler's, and whoever waits may give up; the others have a second meaning: who holds a place or a
# lock, the host of an address, a package of Python, what is given back to the system, a controller of resources.
COMMON = {"unit", "give_up", "holder", "host", "package", "agent", "guest", "controller", "give_back"}


@cache
def _shipped_names() -> frozenset[str]:
    """Roles and actors of shipped systems; and messages, events and states whose names have several words."""
    systems = [spec.load(name) for name in spec.SHIPPED]
    names = {name for system in systems for name in (*system.roles, *system.actors)}
    for system in systems:
        several = {*system.messages, *(n for r in system.roles.values() for n in (*r.states, *r.events))}
        names |= {name for name in several if "_" in name}
    return frozenset(names - COMMON)


def _words(tree: ast.Module) -> Iterator[str]:
    """The identifiers of a module, and its texts of one word: what is not prose."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word) | ast.alias(name=word):
                yield word
            case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.keyword(arg=str(word)):
                yield word
            case ast.ClassDef(name=word):
                yield re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word)
            case ast.Constant(value=str(word)) if re.fullmatch(r"[\w.:/@#-]+(\[\w*\])?", word):
                yield word


@cache
def _known() -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z])({'|'.join(sorted(_shipped_names()))})s?(?![a-z])")


@cache
def _named_in(word: str) -> frozenset[str]:
    return frozenset(match[1] for match in _known().finditer(word.lower()))


def _named(text: str) -> set[str]:
    """The names of shipped systems that a module's text has, but for prose."""
    return set().union(*(_named_in(word) for word in {*_words(ast.parse(text))}))


def test_generic_code_names_nothing_of_a_shipped_system() -> None:
    """Code that explores, runs or shows any system takes names of roles and messages from its specification."""
    files = [name for name in _files() if name.endswith(".py") and name.split("/")[0] in LAYERS]
    assert [room for room in ROOMS if not any(name.startswith(room) for name in files)] == []
    generic = [name for name in files if not name.startswith(ROOMS) and (ROOT / name).is_file()]
    named_by_file = {name: named for name in generic if (named := _named((ROOT / name).read_text()))}
    assert named_by_file == NAMED


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def of(table): return table['service_manager']", {"service_manager"}),
        ("class BrokerOf: pass", {"broker"}),
        ("SITES = ()", {"site"}),
        ("machine = 'participant[2]'", {"participant"}),
        ("say(to='x', participant=1)", {"participant"}),
        ("kind = 'update-lease'; kind = 'update_lease'", {"update_lease"}),
        ("raise ValueError('write a role, such as broker')  # or a site", set()),
        ("opposite = websites = brokerage = composite_unit = 1", set()),
    ],
)
def test_names_in_prose_are_no_logic(text: str, names: set[str]) -> None:
    assert _named(text) == names


@pytest.mark.parametrize(
    "words", ["--version", "check two_phase_commit", "run --help", "crash points two_phase_commit"]
)
def test_only_what_a_verb_runs_is_imported(words: str) -> None:
    """The simulator, the recovery checker and mutants are for `crash real` and `mutate` alone."""
    command = [sys.executable, "-X", "importtime", "-m", "leasehold", *words.split()]
    imported = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    assert " leasehold.cli.main\n" in imported
    modules = re.findall(r"leasehold\.(?:faults\.simulation|checker\.recovery|checker\.mutation)\b.*", imported)
    assert modules == []


def test_every_tox_environment_says_what_it_does() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    environments = {section.removeprefix("testenv:") for section in tox.sections() if section.startswith("testenv:")}
    assert set(re.split(r",\s*", tox["tox"]["env_list"])) <= environments
    assert [name for name in sorted(environments) if not tox[f"testenv:{name}"].get("description")] == []


def test_quick_tests_are_of_every_package() -> None:
    named = (ROOT / "tests/quick.txt").read_text().split()
    assert [name for name in named if not (ROOT / name.partition("::")[0]).exists()] == []
    packages = [*LAYERS, *(f"checker/{folder.parent.name}" for folder in (ROOT / "checker").glob("*/__init__.py"))]
    assert [name for name in packages if not any(test.startswith(f"tests/{name}/") for test in named)] == []


@pytest.mark.parametrize("mark", ["long", "slow"])
def test_tests_that_were_measured_are_there(mark: str) -> None:
    """A test of another name would be one of those that always run."""
    named = [line.partition("[")[0].split("::") for line in (ROOT / f"tests/{mark}.txt").read_text().splitlines()]
    assert len(named) > 100
    assert [one for one in named if one[1] not in (ROOT / one[0]).read_text()] == []


def test_ci_runs_what_the_readme_says() -> None:
    section = re.search(r"^## Test\n.*?^```\w*\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert section
    shown = subprocess.run(["bash", ROOT / ".ci/run", "--show"], capture_output=True, text=True, check=True)
    assert shown.stdout == section[1]
    assert "tox" in section[1]


FLAKY = """
import pathlib
import pytest

def test_steady() -> None:
    pass

@pytest.mark.parametrize("name", ["one", "two words"])
def test_flaky(name: str) -> None:
    tried = pathlib.Path(__file__).with_name(name)
    if not tried.exists():
        tried.touch()
        raise AssertionError
"""


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (FLAKY, ["test_flaky[one]", "test_flaky[two words]"]),
        ("def test_steady() -> None:\n    pass\n", []),
        ("def test_broken() -> None:\n    raise AssertionError\n", ["test_broken"]),
    ],
)
def test_ci_names_the_tests_that_did_not_pass_at_once(content: str, names: list[str], tmp_path: Path) -> None:
    """With the options that it gives to pytest itself: without them a test that passes on a later try has no line."""
    ci = ROOT / ".ci/run"
    options = re.search(r'^export PYTEST_ADDOPTS="(.*)"$', ci.read_text(), re.MULTILINE)
    assert options
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_some.py").write_text(content)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -ra --disable-plugin-autoload -p xdist -p rerunfailures\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *options[1].split()]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    log = tmp_path / "log"
    log.write_text(run.stdout)
    shown = subprocess.run(["bash", ci, "--retried", log], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == [
        f"tests that did not pass at once: {len(names)}",
        *(f"tests/test_some.py::{name}" for name in names),
    ]


def test_no_file_names_a_machine_or_a_registry() -> None:
    assert [*_found(PRIVATE)] == []


def test_no_file_refers_to_a_document_that_is_not_there() -> None:
    """A document is named by its file (outside of tests, which make files of their own), or by a word in capitals."""
    documents = {name.rsplit("/", 1)[-1] for name in _files()}
    named = re.compile(r"(?<![\w./-])[\w./-]*\w\.(?:md|rst|adoc|pdf|docx)\b")
    missing = [
        (place, name)
        for place, name in _found(named)
        if name.rsplit("/", 1)[-1] not in documents and not place.startswith("tests/")
    ]
    assert [*missing, *_found(CITED)] == []


def test_every_test_that_a_document_names_exists() -> None:
    """A link to a file of tests, by the name of one test in it."""
    linked = re.compile(r"\[`(test_\w+)`\]\(([^)#]+\.py)\)")
    pages = [ROOT / name for name in _files() if name.endswith(".md") and (ROOT / name).is_file()]
    links = [(page, *link) for page in pages for link in linked.findall(page.read_text())]
    assert len(links) > 10
    assert [
        (page.name, name)
        for page, name, file in links
        if not re.search(rf"^(async )?def {name}\(", (page.parent / file).read_text(), re.MULTILINE)
    ] == []


def test_every_link_between_documents_leads_somewhere() -> None:
    broken = []
    for name in _files():
        # What reports print in tests lies without the pictures that they write beside it.
        if name.endswith(".md") and (ROOT / name).is_file() and not name.startswith("tests/reports/expected/"):
            for target in re.findall(r"\]\(([^)\s]+)\)", _prose(ROOT / name)):
                path, _, anchor = target.partition("#")
                file = (ROOT / name).parent / path if path else ROOT / name
                if "://" in target or target.startswith("mailto:"):
                    continue
                if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file)):
                    broken.append(f"{name}: {target}")
    assert broken == []


def test_the_page_of_the_architecture_names_what_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`((?:src|docs|tests|LAYERS)/[\w./-]*|tox\.ini)`".replace("LAYERS", "|".join(LAYERS)), page)
    assert len(named) > 50
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert [layer for layer in LAYERS if f"`{layer}/" not in page] == []


@pytest.mark.long
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


@cache
def _modules() -> dict[str, ast.Module]:
    """Every module that is shipped, by its name."""
    paths = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    names = {path: ".".join(("leasehold", *path.relative_to(ROOT).with_suffix("").parts)) for path in paths}
    return {name.removesuffix(".__init__"): ast.parse(path.read_text()) for path, name in names.items()}


def test_a_class_name_has_one_meaning() -> None:
    names = Counter(
        node.name
        for tree in _modules().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_formatter_lays_out_every_module() -> None:
    folders = [ROOT / name for name in (*LAYERS, "tests")]
    word = "# " + "fmt:"
    assert [path for folder in folders for path in folder.rglob("*.py") if word in path.read_text()] == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Nor in a function, nor for types alone."""
    modules = _modules()
    graph = networkx.DiGraph()
    for name, tree in modules.items():
        for node in (one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            graph.add_edges_from((name, m if m in modules else node.module) for m in inner)
    assert [c for c in networkx.strongly_connected_components(graph) if len(c) > 1] == []


def test_no_module_is_imported_by_its_name_from_a_layer_above() -> None:
    for name, tree in _modules().items():
        above = tuple(f"leasehold.{layer}." for layer in LAYERS[: LAYERS.index(name.split(".")[1])])
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called), args=[first, *_]):
                    target = ast.unparse(first).strip("f'\"") if called == "import_module" else ""
                    assert not above or not target.startswith(above), f"{name}:{node.lineno}"


def test_text_is_compiled_before_it_is_run() -> None:
    """CPython ends the process by SIGINT if Ctrl-C comes while `eval` or `exec` runs a text, whoever catches it."""
    for name, module in _modules().items():
        for node in ast.walk(module):
            match node:
                case ast.Call(func=ast.Name(id="eval" | "exec"), args=[first, *_]):
                    assert ast.unparse(first).startswith("compile("), f"{name}:{node.lineno}"
