"""The rollout worker: a process that turns leased prompts into scored trajectories.

This package has the engines behind one protocol (``engine.py``, ``engines/``), the worker's loop
between coordinator and engine, and the rendering of prompts. ``transport`` has messages and the
weight stream; the coordinator decides which trajectories are trained on.
"""
