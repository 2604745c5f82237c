"""User stories on a real Kubernetes: one slow test per story, and the cluster they run on.

Belongs here: tests that need an API server or pods, and `e2e.cluster`, which starts one.
Does not belong here: anything that the product imports.
"""
