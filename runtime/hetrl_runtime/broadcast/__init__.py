"""Weights by process group: from the trainer to all rollout workers of its region at once.

Here belong who takes part in a broadcast, the group that its members form (NCCL between GPUs,
gloo otherwise) and both of its ends. When weights are published and loaded is ``trainer``'s and
``rollout``'s; the stream that crosses regions, which every worker falls back to, ``transport``'s.
"""
