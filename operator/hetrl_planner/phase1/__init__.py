"""Phase 1 of AReaL-Hex: candidates per site, a MILP over them, iterated to a fixed step time."""
