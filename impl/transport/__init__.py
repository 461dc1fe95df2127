"""How messages travel between actors: at least once, in any order."""
