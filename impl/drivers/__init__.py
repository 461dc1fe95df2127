"""Drivers make single things on a machine, such as a network or a volume; a handler composes them into units."""
