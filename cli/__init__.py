"""The command line: one module per verb; and the plugin for pytest."""
