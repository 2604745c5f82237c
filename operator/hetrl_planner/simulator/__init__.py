"""A run played forward, event by event: what a plan or a pipeline would do, before it does it.

In here: the values that describe a pipeline, the parts that play it, and what is measured.
Admission and the strict check are ``hetrl_core.staleness``, as in the runtime. Random numbers
come from a generator that the caller seeds; simulated time is the only time. Only ``compile``
knows plans; reading YAML and printing are left to the edges.
"""
