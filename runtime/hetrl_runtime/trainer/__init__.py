"""The trainer: takes whole batches, moves the policy, publishes each version.

This package has losses, batches as tensors, the model and its optimizer, checkpoints, and the loop
over steps. The coordinator chooses a batch's trajectories, ``transport`` moves weights, and
``rollout`` generates responses.
"""
