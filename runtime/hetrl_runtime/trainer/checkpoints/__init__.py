"""Checkpoints on disk, and the thread that writes them."""
