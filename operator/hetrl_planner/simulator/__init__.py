"""A discrete-event simulator of runs: it predicts the behaviour of a plan or a pipeline.

It has the values that describe a pipeline, the parts that simulate it, and the measurements.
Admission and the strict check are ``hetrl_core.staleness``, as in the runtime. Random numbers
come from a generator that the caller seeds; simulated time is the only time. Only ``compile``
knows plans; the command line reads YAML and prints.
"""
