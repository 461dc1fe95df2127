"""The history that actors have written, as everybody reads it who judges it: its order, its cuts, and its records."""
