"""Verification of running systems: properties as SQL over what actors have told."""
