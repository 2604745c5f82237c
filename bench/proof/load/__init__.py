"""Proves what the operator bears, and what it takes: `make proof-load`.

Here belong the cases (``growth``, ``running``, ``cycles``, ``start``, ``race``), their records and
the page. The cluster, the crowd and the measures are `e2e.load`'s.
"""
