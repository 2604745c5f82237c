"""Searches over partitions of a device graph: cuts, swaps, cyclic moves, evolution."""
