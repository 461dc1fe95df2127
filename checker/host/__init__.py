"""The machine's services that the checker needs: a cache, deadlines, workers, and kept results of mutants."""
