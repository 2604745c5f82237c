"""The reconcile loop: take a job from the queue, make its snapshot, decide, execute.

Deciding is left to ``decide``, the form of single requests to ``kube``.
"""
