"""The first phase: files to trees that remember where everything stands, with the shapes that they may have."""
