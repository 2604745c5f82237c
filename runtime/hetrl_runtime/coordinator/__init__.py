"""The process between training and generation: it leases prompts and accepts trajectories.

Here belong the ledger of a run, the staleness bound's enforcement, the journal that a
restarted coordinator is rebuilt from, and the run's report. It holds no tensors and imports
no torch: a training loop in the same process would keep the interpreter busy.

``state`` decides and touches no clock, socket or file; ``run`` joins it to the journal and
the report; ``service`` and ``server`` are the shell.
"""
