"""The cases of any system: what is chosen after the restart is what the specification allows."""
