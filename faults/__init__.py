"""The catalogue of faults: what each does in the model, and what it will do to a running actor."""
