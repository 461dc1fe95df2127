"""`leasehold check` beside a proof: for each property the strongest verdict that there is, and never more."""

import os
import re
import shutil
from pathlib import Path

import pytest

from leasehold.checker.prove import ClaimVerdict, Proof, StoredProof, store, stored
from leasehold.checker.prove.decide.induction import ANY, Setting
from leasehold.checker.prove.decide.proof import PROVABLE
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.spec import System, shipped_folder
from tests.cli.conftest import Run, as_json
from tests.systems import load

COMMIT = load("two_phase_commit").properties
PROVED = {name for name, p in COMMIT.items() if p.kind in PROVABLE}
FOR = (
    "proved: for any number of participant machines, all values, runs without end, any number of crashes and losses, "
    "duplicates and overtaking"
)


@pytest.fixture
def commit(tmp_path: Path) -> Path:
    """A copy of two-phase commit in the folder that `run` runs in."""
    return Path(shutil.copytree(shipped_folder("two_phase_commit"), tmp_path / "commit"))


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def vouch(system: System, *names: str) -> StoredProof:
    """Keeps that these are proved, whether or not they are."""
    found = store(Proof(system, [ClaimVerdict(name, "always", "proved", "induction") for name in names]), ANY)
    assert found is not None
    assert stored(system) == found
    return found


def verdicts(output: str) -> dict[str, str]:
    """The word before each property of two-phase commit, or before the list that it is in."""
    found: dict[str, str] = {}
    word = ""
    for line in output.splitlines():
        start = re.match(r"(\w+)(?: \(\d+\))?  ", line)
        word = start[1] if start else word if line.startswith("  ") else ""
        if word in {"holds", "proved", "exhausted", "witnessed", "VIOLATED"}:
            found |= dict.fromkeys({*re.findall(r"\w+", line)} & (COMMIT.keys() | {"deadlock_free"}), word)
    return found


def files() -> list[Path]:
    return sorted(Path(os.environ["LEASEHOLD_CACHE"]).glob("proofs/*"))


@pytest.mark.long
def test_a_proof_is_kept_and_shown(run: Run) -> None:
    before = run("check", "two_phase_commit", "--no-crash", "--verbose")
    assert set(verdicts(before.stdout).values()) == {"holds", "witnessed"}
    assert "proved" not in before.stdout
    assert files() == []  # who only checks keeps nothing

    assert run("prove", "two_phase_commit").returncode == 0
    after = run("check", "two_phase_commit", "--no-crash", "--verbose")
    assert (after.returncode, after.stderr) == (0, "")
    found = verdicts(after.stdout)
    assert {name for name, word in found.items() if word == "proved"} == PROVED
    assert {word for name, word in found.items() if name not in PROVED} == {"exhausted", "witnessed"}
    assert after.stdout.count(FOR) == 1
    assert "exhausted: in all 2,322 states within the bounds, with these constants" in after.stdout

    assert verdicts(run("check", "two_phase_commit", "--no-crash", "--verbose", "--set", "participants=2").stdout) == {
        name: "witnessed" if word == "witnessed" else "holds" for name, word in found.items()
    }


@pytest.mark.long
def test_check_proves_where_it_is_asked_to(run: Run) -> None:
    """Once; json has what exploring says beside it."""
    found = as_json(run("check", "two_phase_commit", "--no-crash", "--prove", "--json"))
    (file,) = files()
    made = file.stat().st_mtime_ns
    for p in found["properties"]:
        assert (p["verdict"] == "proved") == (p["name"] in PROVED) == ("method" in p), p
        assert p["explored"] in ("exhausted", "witnessed")
    assert f"proved: {found['proof']['for']}" == FOR
    assert found["proof"]["any_number"] == ["participant"]
    assert (
        verdicts(run("check", "two_phase_commit", "--no-crash", "--verbose", "--prove").stdout)["agreement"] == "proved"
    )
    assert file.stat().st_mtime_ns == made


@pytest.mark.long
@pytest.mark.parametrize("words", [("--no-faults",), ("--instances", "participant=2")])
def test_a_part_of_a_proof_is_not_kept(words: tuple[str, ...], run: Run) -> None:
    assert run("prove", "two_phase_commit", *words).returncode == 0
    assert files() == []


def test_what_a_proof_depends_on_is_in_its_name(commit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof is not found when a lemma, a constant, a guard, the solver or the prover is another; a doc may be."""
    vouch(load(commit), "agreement")
    assert stored(load(commit, {"participants": 2})) is None
    for name, other in (
        ("z3.get_full_version", lambda: "Z3 0.1"),
        ("leasehold.checker.prove.decide.proof_store._SOURCES", [["a", "b"]]),
    ):
        monkeypatch.setattr(name, other)
        assert stored(load(commit)) is None
        monkeypatch.undo()
    for file, old, new in (
        ("lemmas.yaml", "always: coordinator.agreed == participant", "always: participant <= coordinator.agreed"),
        ("roles/coordinator.yaml", "disagree: {to: aborting}", "disagree: {to: committing}"),
    ):
        change(commit / file, old, new)
        assert stored(load(commit)) is None
        change(commit / file, new, old)
        assert stored(load(commit)) is not None
    change(commit / "lemmas.yaml", "doc: The coordinator decides to commit when all have agreed.", "doc: As it says.")
    assert stored(load(commit)) is not None


@pytest.mark.long
def test_changed_lemmas_are_another_proof(run: Run, commit: Path) -> None:
    assert run("prove", "commit").returncode == 0
    assert verdicts(run("check", "commit", "--no-crash", "--keep-going", "--verbose").stdout)["agreement"] == "proved"
    (commit / "lemmas.yaml").unlink()
    assert verdicts(run("check", "commit", "--no-crash", "--keep-going", "--verbose").stdout)["agreement"] == "holds"


@pytest.mark.long
def test_what_is_undecided_has_the_verdict_of_exploring(run: Run, commit: Path) -> None:
    (commit / "lemmas.yaml").unlink()
    done = run("check", "commit", "--no-crash", "--verbose", "--prove")
    assert done.returncode == 0
    found = verdicts(done.stdout)
    assert (found["agreement"], found["decisions_stand"]) == ("exhausted", "proved")


@pytest.mark.long
def test_a_violation_is_shown_beside_a_proof(run: Run, commit: Path) -> None:
    """The coordinator commits although one disagrees."""
    change(commit / "roles/coordinator.yaml", "disagree: {to: aborting}", "disagree: {to: committing}")
    done = run("check", "commit", "--no-crash", "--keep-going", "--verbose", "--prove", "--set", "participants=2")
    assert done.returncode == 1
    assert "commit_needs_all is violated" in done.stdout
    found = verdicts(done.stdout)
    assert (found["commit_needs_all"], found["decisions_stand"]) == ("VIOLATED", "proved")
    assert "an error in Leasehold" not in done.stdout


@pytest.mark.long
def test_a_proof_hides_no_violation(run: Run, commit: Path) -> None:
    change(commit / "roles/coordinator.yaml", "disagree: {to: aborting}", "disagree: {to: committing}")
    vouch(load(commit), "commit_needs_all", "agreement")
    done = run("check", "commit", "--no-crash", "--keep-going", "--verbose")
    assert done.returncode == 1
    assert verdicts(done.stdout)["commit_needs_all"] == "VIOLATED"
    assert "commit_needs_all is proved, and yet violated: one of the two is an error in Leasehold" in done.stdout
    found = as_json(run("check", "commit", "--no-crash", "--keep-going", "--verbose", "--json"))
    (it,) = [p for p in found["properties"] if p["name"] == "commit_needs_all"]
    assert (it["verdict"], it["explored"], "method" in it) == ("violated", "violated", False)


@pytest.mark.long
def test_nor_one_that_faults_cause(run: Run, tmp_path: Path) -> None:
    """The termination protocol does not agree when the network falls apart; a proof that says so is wrong."""
    folder = Path(shutil.copytree(shipped_folder("three_phase_commit_termination"), tmp_path / "commit"))
    text = (folder / "system.yaml").read_text()
    (folder / "system.yaml").write_text(re.sub(r"^  check: .*", "  check: partition=1", text, flags=re.MULTILINE))
    vouch(load(folder, {"participants": 2}), "agreement")
    words = ("check", "commit", "--keep-going", "--set", "participants=2")
    done = run(*words)
    assert done.returncode == 1
    assert "agreement is proved, and yet violated" in done.stdout
    found = as_json(run(*words, "--json"))
    (it,) = [p for p in found["properties"] if p["name"] == "agreement"]
    assert (it["verdict"], it["explored"], "method" in it) == ("violated", "exhausted", False)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"proved": 3}',
        b"[" * 100_000,
        b'{"proved":{"agreement":1}}',
        b'{"proved":{"no_property":"x"},"any_number":[],"faults":"x","made":"x"}',
    ],
)
def test_a_broken_file_is_no_proof(content: bytes, commit: Path) -> None:
    system = load(commit)
    vouch(system, "agreement")
    (file,) = files()
    file.write_bytes(content)
    assert stored(system) is None
    vouch(system, "agreement")


@pytest.mark.long
def test_a_broken_cache_is_none(run: Run, tmp_path: Path) -> None:
    """The cache is a file; what is proved is shown all the same."""
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file")
    for words, word in ((("--no-crash",), "holds"), (("--no-crash", "--prove"), "proved")):
        done = run("check", "two_phase_commit", "--verbose", *words, LEASEHOLD_CACHE=place)
        assert (done.returncode, done.stderr) == (0, "")
        assert verdicts(done.stdout)["agreement"] == word


def test_other_broken_caches(commit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof is a folder; the cache has a name that none can have."""
    system = load(commit)
    vouch(system, "agreement")
    (file,) = files()
    file.unlink()
    file.mkdir()
    proof = Proof(system, [ClaimVerdict("agreement", "always", "proved")])
    for place in (os.environ["LEASEHOLD_CACHE"], "x" * 5000):
        monkeypatch.setenv("LEASEHOLD_CACHE", place)
        assert store(proof, ANY) is not None
        assert stored(system) is None
    monkeypatch.undo()
    assert files() == [file]


def test_later_proofs_add_to_earlier_ones(commit: Path) -> None:
    system = load(commit)
    vouch(system, "agreement")
    assert vouch(system, "commit_needs_all").proved.keys() == {"agreement", "commit_needs_all"}
    assert [f.suffix for f in files()] == [".json"]  # and nothing half written is left


def test_a_prover_that_is_edited_while_it_proves_keeps_nothing(commit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.checker.prove.decide.proof_store._sources", list)
    assert store(Proof(load(commit), [ClaimVerdict("agreement", "always", "proved")]), ANY) is not None
    assert files() == []


def test_only_a_whole_proof_is_kept(commit: Path) -> None:
    found = Proof(load(commit), [ClaimVerdict("agreement", "always", "proved")])
    assert store(found, Setting(sizes={"participant": 2})) is None
    assert store(found, Setting(scope=FaultScope())) is None
    assert store(Proof(load(commit), [ClaimVerdict("agreement", "always", "undecided")]), ANY) is None
    assert files() == []
