"""``hetrl evaluate``: how many problems of a file a model folder solves by greedy decoding.

Here belongs measuring a model at rest. Generating is the rollout room's, and what is right
is the verifier's; nothing here is part of a run.
"""
