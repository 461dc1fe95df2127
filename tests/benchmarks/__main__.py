"""``python -m tests.benchmarks``: see run.py."""

import sys

from tests.benchmarks.run import main

sys.exit(main())
