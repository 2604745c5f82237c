"""Simulated time: the calendar, work that shares one rate, and trajectories."""
