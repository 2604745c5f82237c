"""Weights by process group: from the trainer to all rollout workers of its region at once.

This package has the members of a broadcast, the group that they form (NCCL between GPUs, gloo
otherwise) and both of its ends. ``trainer`` publishes weights and ``rollout`` loads them;
``transport`` has the stream that crosses regions, which every worker falls back to.
"""
