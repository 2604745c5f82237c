"""Decisions about a job's plan: which plan is active, and when another one replaces it."""
