"""The planning problem: workload, usable machines, goals, and its identity as a cache key."""
