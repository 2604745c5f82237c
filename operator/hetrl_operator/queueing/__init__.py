"""Kueue's Workload: how it is written for a job, and what is read of it.

When one is made, given back or told something is ``decide.queueing``'s; who writes is ``apply``'s.
"""
