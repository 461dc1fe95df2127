"""The campaign of the lease with real processes: actors, units, stores and transports as in production, and faults."""
