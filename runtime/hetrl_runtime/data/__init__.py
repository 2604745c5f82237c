"""Prompts on disk: reading them, saying what is wrong with a file, and their order.

Chat templates and tokenisation belong to the rollout workers, which have the tokenizer; who
gets which prompt is the coordinator's business.
"""
