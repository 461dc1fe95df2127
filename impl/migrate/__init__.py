"""Records of an older specification become records of a newer one, by rules that are kept with it."""
