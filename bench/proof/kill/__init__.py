"""Proves that runs survive: `make proof-kill`, or one case of it with ``--case`` and ``--seed``.

``strikes``, ``fault_injection`` and ``relays`` inject faults into a job's processes, ``keeper``
supervises them, and ``tail``, ``story`` and ``verdict`` check their records afterwards. `hetrl run`
defines the processes and starts them.
"""
