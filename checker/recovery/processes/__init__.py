"""The recovery campaign with real processes: actors, units, stores and transports as in production, and real faults."""
