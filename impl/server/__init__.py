"""An actor as a server: its configuration, its process, and the words of clients."""
