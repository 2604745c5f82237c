"""The Kubernetes side: observe, decide, apply.

kopf is the event loop here, not the architecture: handlers only feed a queue. ``observe``
is the only reader and ``apply`` the only writer; what lies between them is pure.
"""
