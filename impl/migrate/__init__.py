"""Migration: records of an older specification become records of a newer one, by rules in the specification."""
