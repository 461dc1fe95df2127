"""The catalogue of faults: what can go wrong, and how it is made to."""
