"""Frozen values that decisions read and return, and the readers of Kubernetes objects.

Nothing here writes, waits or knows the time.
"""
