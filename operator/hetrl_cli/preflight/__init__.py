"""Commands that look into a job before it runs: whether it can, and what its policy is asked.

Each starts the runtime's own command in a process, as a pod would.
"""
