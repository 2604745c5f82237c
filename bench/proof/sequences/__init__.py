"""Proves that a job recovers from whatever befalls it, in any order: `make proof-sequences`.

Here belong the records and the page; sequences, lanes and verdicts are `e2e.sequences`'.
"""
