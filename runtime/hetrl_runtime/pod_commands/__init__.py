"""Commands that pods run: ``hetrl coordinator``, ``trainer``, ``rollout`` and ``inference``.

A command reads the launch contract, starts the programs of its pod and ends with their exit code.
What a program does is left to the package of its name.
"""
