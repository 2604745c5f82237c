"""A plan as a picture: regions, machines, GPUs, and what flows between them.

First what there is to show: ``duties`` (which GPU does what), ``cards`` (machines that are alike
drawn once), ``hops``, ``flows`` and ``weights`` (what moves, from where to where). Then each gets
a place on paper, as the frozen values of ``shapes``, from the small to the large: ``bars``,
``machine``, ``stack``, ``column``, ``region``, ``crossings``, ``sheet``. At last ``draw``, which
alone knows matplotlib and decides nothing. Tables of a plan are left to ``hetrl_cli.tables.plan``.
"""
