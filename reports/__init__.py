"""The report generator, and the committed reports that it wrote."""
