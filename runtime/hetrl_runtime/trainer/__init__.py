"""The trainer: takes whole batches, moves the policy, publishes each version.

What belongs here: losses, batches as tensors, the model and its optimizer, checkpoints, and
the loop over steps. What does not: which trajectories make a batch (the coordinator's), how
weights travel (``transport``), and how responses come about (``rollout``).
"""
