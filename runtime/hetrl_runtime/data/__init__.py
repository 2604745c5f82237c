"""Prompts on disk: reading, validation and order.

The rollout workers have the tokenizer, and apply chat templates; the coordinator assigns prompts.
"""
