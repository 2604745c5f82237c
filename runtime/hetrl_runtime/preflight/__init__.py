"""The preflight of a job: its models, rows and reward are checked before it gets GPUs.

Each module checks one of them and returns what it found, or a ``Fault`` that the job cannot run
with. ``command`` writes the report; no weights are read, and no tensor library is imported.
"""
