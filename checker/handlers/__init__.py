"""The harness for handlers: each is tried with repetitions, crashes and failing tools, and judged from outside."""
