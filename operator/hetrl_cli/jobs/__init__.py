"""Commands on jobs in a cluster: submit, status, top, logs, events, suspend, resume, scale.

Each asks the API server through ``connection`` and prints; what a job then does is the
operator's. Nothing here plans, and nothing knows pods beyond their names, roles and logs.
"""
