"""Ownership of folders that several processes could write: one at a time, known by name.

Command line and runtime share it: the core does no I/O. What is written into a folder is not here.
"""
