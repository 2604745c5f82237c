"""The Kubernetes side: observe, decide, apply.

kopf is the event loop here, not the architecture: handlers only feed a queue. ``model.parse`` is
the only reader and ``kube.writer`` the only writer; decisions between them are pure functions.
"""
