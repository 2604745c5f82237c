"""Strategies that combine searches into one plan, and the selection among their finalists."""
