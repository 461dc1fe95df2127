"""The runtime: compiled machines and the actors, stores and transports that run them."""
