"""A complete layout: every tasklet on its GPU, and its cost.

Searches make layouts and compare them; nothing here searches. ``devices`` numbers the GPUs,
``layout`` assigns tasks to them, ``evaluate`` prices the result. Pods are not known here.
"""
