"""Whole runs of `hetrl run` on inputs and numbers that must not be trained on.

A case is a job, what is wrong with it, and how it must end. Each run has real processes.
"""
