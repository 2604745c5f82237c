"""Scoring responses by rule: a response and a reference answer in, a number out.

A verifier is a pure function; running it beside the engine, in a process of its own, is
the rollout worker's part. Learned reward models are not verifiers and do not live here.
"""
