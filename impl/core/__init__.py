"""The core: what machines do with events, as values. Nothing here reads a clock, a store, a network or a handler."""
