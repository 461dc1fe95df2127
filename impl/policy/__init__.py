"""Policies: when to act, how much to grant, which units. They never move a lease themselves."""
