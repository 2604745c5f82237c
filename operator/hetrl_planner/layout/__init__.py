"""One complete answer: every tasklet on its GPU, and what the cost model says of it.

Searches make layouts and compare them; nothing here searches. ``devices`` numbers the GPUs,
``layout`` says who does what, ``evaluate`` prices it. What the numbers mean to a pod is not
known here.
"""
