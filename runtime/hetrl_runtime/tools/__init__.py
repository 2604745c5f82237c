"""Tools that a policy may call while it answers, by the names that a job gives them.

A tool takes text and returns text, at once, with no effect on anything. How a call is written and
its result told is `rollout.tool_calls`'; that a result is not trained on, the trainer's.
"""
