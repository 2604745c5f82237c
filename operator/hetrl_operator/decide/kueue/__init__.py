"""Decisions about jobs in a queue of Kueue: when they wait, and what their Workload says."""
