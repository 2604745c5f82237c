"""Scoring responses by rule: a response and a reference answer in, a number out.

A verifier is a pure function; the rollout worker runs it in a process of its own. Learned reward
models are not verifiers: ``inference`` has them.
"""
