"""A plan as a picture: regions, machines, GPUs, and what flows between them.

``cards`` groups machines that are used alike, and ``flows`` determines the data movement.
``machines``, ``region`` and ``sheet`` draw them on a ``canvas``, which alone knows matplotlib.
``option`` is the option ``--picture``. Tables of a plan are in ``hetrl_cli.tables.plan``.
"""
