"""Answers in a text: where they stand, and one form for equal quantities."""
