"""Identity of actors: keys, signed envelopes, and trust."""
