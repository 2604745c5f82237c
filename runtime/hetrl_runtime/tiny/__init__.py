"""A model and a task that a laptop can learn: ``hetrl make-model`` and ``hetrl make-data``.

This package has the sums that demonstrations and tests train on, and the small Qwen3 that is bad at
them at first. ``trainer`` trains it by reward, as any other model.
"""
