"""The cases of the lease: what is checked after the restart is about leases, their policies and units."""
