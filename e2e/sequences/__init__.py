"""Sequences of faults and changes of a job, on a real API server, and what must hold after each.

Here belong the steps and how they are chosen (``steps``), the lanes in which sequences are played
side by side (``lane``), and the verdict: the job recovers, and is in the end as one that was just
created with that spec (``verdict``). Faults of the API server itself are `e2e.faults`'.
"""
