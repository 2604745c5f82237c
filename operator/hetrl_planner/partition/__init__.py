"""Partitioning of a weighted graph of devices into parts of given sizes.

Cuts, chains of swaps and an evolutionary search propose; the caller's cost decides. Nothing here
knows jobs, models or plans, and no search reads a clock: random numbers, the number of
evaluations and ``should_stop`` are passed in. The entry point is ``find.find_partition``.
"""
