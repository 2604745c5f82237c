"""The rollout worker: a process that turns leased prompts into scored trajectories.

Here belong the engines behind one protocol (``engine.py``, ``engines/``), the worker's loop
between coordinator and engine, and how a question becomes prompt tokens. What the messages
look like and how weights travel is the transport's business; whether a trajectory may be
trained on is the coordinator's.
"""
