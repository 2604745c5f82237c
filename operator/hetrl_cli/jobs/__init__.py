"""Commands on jobs in a cluster: submit, status, top, logs, events, suspend, resume, scale.

Each sends requests through ``connection`` and prints the result; what a job then does is the
operator's. Nothing here plans, and nothing knows pods beyond their names, roles and logs.
"""
