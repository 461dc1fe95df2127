"""The command line: one module per verb."""

import gc

# What is imported and loaded stays, so looking for cycles in it again and again only takes time.
gc.set_threshold(100_000, 50, 100)
