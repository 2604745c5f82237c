"""One model trained by many processes: replicas of stages of tensor ranks.

    replica 0:  stage 0 [tensor 0, tensor 1] ──hidden states──▶ stage 1 [tensor 0, tensor 1]
    replica 1:  stage 0 [tensor 0, tensor 1] ──▶ ...      gradients are summed across replicas

What belongs here: places and their process groups, how a model is cut, how its passes run, and
tensors gathered from and dealt out to where they lie. What does not: losses, batches and what
a step is (``trainer``), and who starts which process (the launch contract's rank table).
"""
