"""Whether an actor is up: the state variable that every kind of fault has in common."""

UP, DOWN, GONE = True, False, None  # GONE is halted for good; only UP is true
EVERYTHING = "everything"  # the name of a crash of all actors
