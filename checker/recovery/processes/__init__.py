"""Real processes for the recovery checker: forked actors, servers of stores and messages, disks and networks."""
