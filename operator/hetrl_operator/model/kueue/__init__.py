"""Kueue's API as the operator uses it: names, a job's Workload, and whether the job waits."""
