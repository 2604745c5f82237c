"""A new user's walk: the quick start's own commands, from no cluster to a learning curve, timed."""
