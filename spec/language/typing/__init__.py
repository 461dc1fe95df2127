"""The phase of expressions: text to a typed tree, with what each name means."""
