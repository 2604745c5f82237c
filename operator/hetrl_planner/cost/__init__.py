"""The cost model: seconds, bytes and dollars of a candidate, from datasheet figures.

Each term is a small function with its equation and its source; totals are visible sums.
Nothing here compares or chooses. Constants that no datasheet or paper gives stand at the
top of their file, marked as ours.
"""
