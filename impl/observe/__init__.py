"""What an operator sees of a running actor: logs, metrics, traces."""
