"""The processes inside the pods: coordinator, trainer and rollout workers.

Each reads its launch contract and talks to the others over the wire; none knows of
Kubernetes, of plans or of how it was started. Only the trainer and the engines import torch.
"""
