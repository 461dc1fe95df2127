"""The policies of brokers that serve by something else than the order in which requests came."""
