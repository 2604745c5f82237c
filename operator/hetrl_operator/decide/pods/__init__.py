"""Decisions about a job's pods: creation, gang start, failures, restarts, replacement, release."""
