"""The actors of a system as processes: how they are started, watched, asked and ended."""
