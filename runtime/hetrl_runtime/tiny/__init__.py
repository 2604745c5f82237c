"""A model and a task that a laptop can learn: ``hetrl make-model`` and ``hetrl make-data``.

What belongs here: the sums that demonstrations and tests train on, and the small Qwen3 that
starts out bad at them. What does not: training by reward, which is the trainer's, for this
model and any other alike.
"""
