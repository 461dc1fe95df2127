"""Who says what: keys, signed envelopes, tickets, and whom an actor trusts."""
