"""The explored graph, and decisions on the finished graph: liveness, fairness, cycles."""
