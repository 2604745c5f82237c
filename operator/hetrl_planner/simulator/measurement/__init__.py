"""Measurements of a simulated run and its result."""
