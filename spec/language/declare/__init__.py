"""The phase of declarations: trees to the model, in two passes: names first, then what they are."""
