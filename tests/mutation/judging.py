"""Judges mutants: copies of the repository with one mistake each, in which the tests that run its lines are run.

Theory of operation. All tests are run once under coverage, with a context for each test, in the processes that a test
starts, too. A mutant is tried with the tests that run one of its lines, the quickest first, as many as a time has room
for. It is killed when one fails, or does not end. What a mutant does to other processes stays in a namespace of its
own: the mistake may be to kill them all.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tests.mutation.operators import Mutant
from tests.planted.judge import ROOT, Copy, environment_of

FIRST, LONGEST = 3.0, 30.0  # seconds of tests that a mutant is tried with at first, and if it survives, in all
PATIENCE = 3.0  # a mutant's tests may take so many times as long as they took without it
START_SECONDS = 30.0
DURATIONS = "LEASEHOLD_DURATIONS"  # the variable that names the file of the tests' seconds
# In a namespace of processes, as the child of its first process: the first one has no parent, which tests look at.
# No file grows beyond a gigabyte: the mistake may be to fill a disk that is not small, or the memory.
LIMITED = 'ulimit -f 2097152; "$0" "$@"; exit $?'
APART = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", LIMITED)

SETTINGS = """\
[run]
parallel = true
data_file = {folder}/data
include = {include}
context = ${{LEASEHOLD_TEST-}}
concurrency = multiprocessing, thread
patch = subprocess
sigterm = true
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a mutant.

    Attributes:
        killed_by: the test that failed; "time", where the tests did not end; empty where it has survived.
        tests: how many were tried.
    """

    mutant: Mutant
    killed_by: str = ""
    tests: int = 0


class Coverage:
    """Tests that run a line, and their times.

    Args:
        folder: of the data, which `measure` writes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.seconds = folder, dict[str, float]()
        self._tests: dict[str, dict[int, list[str]]] = {}
        for line in (folder / "durations").read_text(encoding="utf-8").splitlines():
            seconds, _, name = line.partition(" ")
            self.seconds[name] = float(seconds)
        import coverage  # which the campaign needs, and no test

        self._data = coverage.CoverageData(str(folder / "data"))
        self._data.read()
        self._root = Path((folder / "root").read_text(encoding="utf-8"))

    @classmethod
    def measure(cls, folder: Path, tests: Sequence[str], packages: Sequence[str], expression: str) -> Coverage:
        """Runs tests under coverage.

        Args:
            folder: of the data; it is made anew.
            tests: files and folders of them.
            packages: folders whose lines count.
            expression: of marks, as `pytest -m` takes it.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        settings = folder / "settings"
        include = ",".join(f"{ROOT / package}/*" for package in packages)
        (folder / "root").write_text(str(ROOT), encoding="utf-8")
        settings.write_text(SETTINGS.format(folder=folder, include=include), encoding="utf-8")
        command = [sys.executable, "-m", "coverage"]
        run = [*command, "run", f"--rcfile={settings}", "-m", "pytest", "-n", "2", "--dist", "worksteal", "-q"]
        environment = {**os.environ, DURATIONS: str(folder / "durations")}
        subprocess.run(
            [*run, "-m", expression, "-p", "tests.mutation.contexts", *tests],
            cwd=ROOT,
            env=environment,
            check=False,
            stdout=sys.stderr,
        )
        subprocess.run([*command, "combine", "-q", f"--rcfile={settings}"], cwd=ROOT, check=True, stdout=sys.stderr)
        return cls(folder)

    def forget_missing(self, tests: Sequence[str]) -> None:
        """Tests that have gone, or have another name, since they were measured would fail whatever is tried."""
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "-p", "no:xdist", *tests]
        said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        there = set(said.splitlines())
        self.seconds = {name: seconds for name, seconds in self.seconds.items() if name in there}

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that run a line of a mutant, as many as `LONGEST` has room for.

        Others of their files are tried too, as a fixture that they share runs in the first of them alone. Where hardly
        any is known to run it, those of the same package follow. Those of its own package come first, and of these the
        quick ones.
        """
        if mutant.path not in self._tests:
            by_line = self._data.contexts_by_lineno(str(self._root / mutant.path))
            self._tests[mutant.path] = {line: [t for t in map(_test_of, names) if t] for line, names in by_line.items()}
        lines = self._tests[mutant.path]
        known = {name for line in range(mutant.line, mutant.end_line + 1) for name in lines.get(line, ())}
        files = {name.partition("::")[0] for name in known}
        if len(known) <= 1 or _at_import(mutant):  # whoever uses the module may find it, or only reads what it defines
            files |= {name.partition("::")[0] for some in lines.values() for name in some}
        names = known | {name for name in self.seconds if name.partition("::")[0] in files}
        own = f"tests/{Path(mutant.path).parent}/"
        if len(names) <= 1 or _at_import(mutant):  # or it runs in a process that coverage does not see
            names |= {name for name in self.seconds if name.startswith(own)}
        passed = [name for name in names if name in self.seconds]
        few = known if len(known) <= 1 else ()  # many know most of it, as what is imported

        def late(name: str) -> tuple[bool, bool, bool, bool, float]:
            seconds = self.seconds[name]
            return name not in few, not name.startswith(own), seconds > FIRST, name not in known, seconds

        return self.within(sorted(passed, key=late), LONGEST)

    def within(self, names: Sequence[str], limit: float) -> list[str]:
        """The first of some tests, as many as a time has room for, and at least one."""
        totals = accumulate(self.seconds[name] for name in names)
        return [name for n, (name, total) in enumerate(zip(names, totals, strict=True)) if not n or total <= limit]


def _test_of(context: str) -> str:
    """The test of a context: the last one, where a process was forked from one that began in another test."""
    _, mark, last = context.rpartition("|tests/")
    return f"tests/{last}" if mark else context


def _at_import(mutant: Mutant) -> bool:
    """Returns whether a mistake is in a module's or class's own lines: they run in a process's first test alone."""
    innermost = mutant.function.rpartition(".")[2].lstrip("_")
    return not innermost or innermost[0].isupper()


class MutantCopy(Copy):
    """A copy of the repository, in which one mutant after the other is tried."""

    def judge(self, mutant: Mutant, measured: Coverage) -> Judged:
        """Tries a mutant with the tests that run its lines: a few first, which kill most."""
        tests = measured.of(mutant)
        first = measured.within(tests, FIRST)
        for some in (first, tests[len(first) :]):
            while some:
                limit = sum(measured.seconds[name] for name in some) * PATIENCE + START_SECONDS
                killed_by = self.tried_with(mutant, some, limit)
                # A test that fails at times, or after others, has not found it.
                if killed_by and (killed_by not in some or self.tried_with(mutant, [killed_by], limit)):
                    return Judged(mutant, killed_by, len(tests))
                some = some[some.index(killed_by) + 1 :] if killed_by else []
        return Judged(mutant, "", len(tests))

    def tried_with(self, mutant: Mutant, tests: Sequence[str], limit: float) -> str:
        """The first of some tests that finds a mutant; "time": they do not end; empty: all pass."""
        file = self.folder / mutant.path
        source = file.read_bytes()
        file.write_bytes(mutant.applied(source))
        try:
            return self._run(tests, limit)
        finally:
            file.write_bytes(source)

    def _run(self, tests: Sequence[str], limit: float) -> str:
        names = self.folder.parent / "names"
        names.write_text("\n".join(tests) + "\n", encoding="utf-8")
        if subprocess.run([*APART, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
            raise PermissionError("no namespace of processes can be made: run this as root")
        options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", ""]
        command = [*APART, sys.executable, "-m", "pytest", *options, f"@{names}"]
        with (names.parent / "said").open("w+", encoding="utf-8", errors="replace") as said:
            running = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment_of(self.folder),
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = running.wait(limit)
            except subprocess.TimeoutExpired:
                return "time"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
                running.wait()
            if code == 0:
                return ""
            said.seek(0)
            failed = [line.split(" ", 1)[1] for line in said if line.startswith(("FAILED ", "ERROR "))]
            return failed[0].split(" - ")[0].strip() if failed else f"exit code {code}"
