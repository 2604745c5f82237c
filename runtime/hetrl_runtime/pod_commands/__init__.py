"""Commands that pods run: ``hetrl coordinator``, ``trainer``, ``rollout`` and ``inference``.

A command reads the launch contract, starts the programs of its pod and ends with their exit code.
The package of the same name has the program.
"""
