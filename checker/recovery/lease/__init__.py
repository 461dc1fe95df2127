"""The recovery checker's part for the lease: its plug-in, runs and cases; its policies, units and tickets exist."""
