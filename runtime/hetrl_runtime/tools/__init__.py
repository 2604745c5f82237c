"""Tools that a policy may call while it answers, by the names that a job gives them.

A tool takes text and returns text, at once, without side effects. `rollout.tool_calls` parses calls
and writes results; the trainer masks results.
"""
