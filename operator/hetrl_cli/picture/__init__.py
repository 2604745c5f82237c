"""A plan as a picture: regions, machines, GPUs, and what flows between them.

``content`` determines what to show: ``duties`` (tasks by GPU), ``cards`` (identical machines, drawn
once), ``hops``, ``flows`` and ``weights`` (data movement). ``drawing`` lays it out as the frozen
values of ``shapes``, from the small to the large: ``bars``, ``machine``, ``stack``, ``column``,
``region``, ``crossings``, ``sheet``. ``draw`` renders them; only it knows matplotlib. Tables of a
plan are in ``hetrl_cli.tables.plan``.
"""
