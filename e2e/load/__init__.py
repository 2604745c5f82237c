"""Many jobs at once, and what they cost: the operator on fake nodes, a crowd of jobs, measures.

Here belongs what the proof of load and its samples in the tests both need. Not: which sizes are
measured and what is asked of them (`bench.proof.load`), nor faults (`e2e.faults`).
"""
