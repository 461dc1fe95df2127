"""SQL: properties as queries over the tables that hold the states of runs."""
