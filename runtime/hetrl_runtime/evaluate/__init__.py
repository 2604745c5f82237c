"""``hetrl evaluate``: how many problems of a file a model folder solves by greedy decoding.

This package measures a model outside of runs. ``rollout`` generates, and a verifier decides what is
right.
"""
