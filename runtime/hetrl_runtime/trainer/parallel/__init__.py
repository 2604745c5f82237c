"""One model trained by many processes: replicas of stages of tensor ranks.

    replica 0:  stage 0 [tensor 0, tensor 1] ──hidden states──▶ stage 1 [tensor 0, tensor 1]
    replica 1:  stage 0 [tensor 0, tensor 1] ──▶ ...      gradients are summed across replicas

This package has places and their process groups, the split of a model, its passes, and the
gathering and scattering of tensors. ``trainer`` has losses, batches and steps; the launch
contract's rank table says which process starts where.
"""
