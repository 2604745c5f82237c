"""Proves that runs survive: `make proof-kill`, or one case of it with ``--case`` and ``--seed``.

Here belong what is done to the real processes of a job (``strikes``, ``mishaps``, ``relays``),
what keeps them running meanwhile (``keeper``), and what their records must say afterwards
(``tail``, ``story``, ``verdict``). What the processes are, and how they start, is `hetrl run`'s:
nothing of theirs is done anew here.
"""
