"""Values and rules of heterogeneous RL training that operator and runtime share.

This package holds values (frozen, validated when they are made) and pure rules over them: the
fleet, the job, the plan, the staleness bound, and the launch contract of a pod. Nothing here reads
a file, a clock, a socket or a random number, and nothing imports torch, kopf or a Kubernetes
client.
"""
