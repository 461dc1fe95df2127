"""What the recovery checker knows of the lease: its plug-in, runs and cases; its policies, units and tickets exist."""
