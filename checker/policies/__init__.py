"""Policies of brokers, simulated on streams of requests before they decide for anybody."""
