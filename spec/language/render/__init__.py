"""The readings of an expression that the language itself has: its meaning, and Python source."""
