"""What is committed must not depend on the order in which a process happens to keep sets."""

import hashlib
import os
import subprocess
import sys

import pytest

PRINT = """
import sys
from leasehold.checker.explore import explore
from leasehold.reports.write import committed_files
from tests.systems import load
for path, content in sorted(committed_files(explore(load(sys.argv[1], {"last_end": 1}))).items()):
    print(path)
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
"""


@pytest.mark.long
@pytest.mark.parametrize("system", ["lease", "contention"])
def test_a_report_is_the_same_under_every_hash_seed(system: str) -> None:
    digests = {
        hashlib.sha256(
            subprocess.run(
                [sys.executable, "-c", PRINT, system],
                env={**os.environ, "PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
            ).stdout
        ).hexdigest()
        for seed in ("0", "1", "2")
    }
    assert len(digests) == 1
