"""HetRL's multi-level search (arXiv 2512.12476): groups, counts, GPUs, splits, places.

Levels 1 and 2, which tasks share GPUs and how many each group gets, are arms of nested
successive halving; levels 3 to 5, which GPUs, which split and which place, are evolved. ``layout``
prices layouts. Random numbers are passed in; budgets are evaluations.
"""
