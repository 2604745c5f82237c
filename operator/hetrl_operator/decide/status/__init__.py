"""Decisions about a job's status: conditions, phase, progress, and when to write it."""
