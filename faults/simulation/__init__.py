"""Real actors in one process: their time, network and disks, all of which may fail, and the ways to drive them."""
