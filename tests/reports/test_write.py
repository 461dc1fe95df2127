import json
from dataclasses import replace

import pytest

from leasehold.checker.explore import explore
from leasehold.reports.dot import HOW_TO_GET_SVG, has_dot
from leasehold.reports.write import FORMATS, committed_files, differences, renew, safe_name, write_report
from leasehold.spec.language.load import load

WITHOUT_DOT = {
    "index.html",
    "report.md",
    "report.json",
    "report.sarif",
    "junit.xml",
    "product.dot",
    "roles/chair.dot",
    "roles/voter.dot",
    "roles/chair.mmd",
    "roles/voter.mmd",
    "paths/all_are_heard.mmd",
    "paths/all_are_heard.svg",
    "paths/all_are_heard.txt",
    "paths/somebody_votes.mmd",
    "paths/somebody_votes.svg",
    "paths/somebody_votes.txt",
    "paths/is_carried.mmd",
    "paths/is_carried.svg",
    "paths/is_carried.txt",
}
WITH_DOT = WITHOUT_DOT | {"product.svg", "roles/chair.svg", "roles/voter.svg"}


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_every_format(votes, tmp_path):
    written = write_report(votes, tmp_path / "new" / "folder")
    assert names(tmp_path / "new" / "folder") == (WITH_DOT if has_dot() else WITHOUT_DOT)
    assert len(written) == len(set(written)) == len(names(tmp_path))
    assert all(path.read_bytes() for path in written)
    json.loads((tmp_path / "new/folder/report.sarif").read_text("utf-8"))


def test_without_dot_everything_else_works_and_one_line_says_why(votes, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    said = []
    write_report(votes, tmp_path, say=said.append)
    assert names(tmp_path) == WITHOUT_DOT
    assert said == [HOW_TO_GET_SVG]


def test_only_what_is_asked_for(votes, tmp_path):
    assert [p.name for p in write_report(votes, tmp_path, ["junit", "sarif", "junit"])] == ["junit.xml", "report.sarif"]


def test_a_format_that_is_not_known(votes, tmp_path):
    with pytest.raises(ValueError, match=f"no such format: pdf; there are {', '.join(FORMATS)}"):
        write_report(votes, tmp_path / "x", ["html", "pdf"])
    assert not (tmp_path / "x").exists()


def test_the_same_system_gives_the_same_bytes(votes):
    again = explore(load(votes.system.messages["vote"].place.file.removesuffix("/messages.yaml")))
    assert again is not votes
    assert committed_files(again) == committed_files(votes)
    assert committed_files(replace(votes, seconds=99.0, peak_memory_bytes=1)) == committed_files(votes)


def test_what_is_committed_for_the_lease(lease):
    files = committed_files(lease)
    assert {"index.html", "report.md", "report.json", "product.dot", "roles/unit.mmd"} <= files.keys()
    assert not {"product.svg", "junit.xml", "report.sarif"} & files.keys()
    assert sum(map(len, files.values())) < 1_500_000
    assert not [name for name, content in files.items() if b"peak_memory_bytes" in content and name.endswith(".json")]


def test_drift_is_seen_and_mended(tmp_path):
    files = {"a.md": b"1", "roles/b.dot": b"2"}
    assert list(differences(tmp_path / "none", files)) == [
        f"{tmp_path}/none/a.md: missing",
        f"{tmp_path}/none/roles/b.dot: missing",
    ]
    renew(tmp_path, files)
    assert list(differences(tmp_path, files)) == []
    (tmp_path / "a.md").write_bytes(b"0")
    (tmp_path / "old.md").write_bytes(b"3")
    assert list(differences(tmp_path, files)) == [f"{tmp_path}/a.md: outdated", f"{tmp_path}/old.md: no longer made"]
    renew(tmp_path, files)
    assert list(differences(tmp_path, files)) == []


def test_names_of_files():
    assert safe_name("no_regress") == "no_regress"
    assert safe_name("../a b/ü") == "_a_b__"
    assert safe_name("..") == "_"
