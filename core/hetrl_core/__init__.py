"""Words and rules of heterogeneous RL training, shared by everyone who must agree.

Here belong values (frozen, validated when they are made) and pure rules over them: the
fleet, the job, the plan, the staleness bound, and what one pod is told at its start.
Nothing here reads a file, a clock, a socket or a random number, and nothing imports
torch, kopf or a Kubernetes client.
"""
