"""Proof that a job recovers from faults in any order: `make proof-sequences`.

Here belong the records and the page; sequences, lanes and verdicts are `e2e.sequences`'.
"""
