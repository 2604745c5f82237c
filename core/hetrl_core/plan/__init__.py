"""Plans as frozen values, and what follows from them: pod sets, training splits, capabilities."""
