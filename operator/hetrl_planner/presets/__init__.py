"""Preset fleets and networks: published regions and links, and scenarios made of them.

Each names the source of its figures, and which of them are ours. A user's own fleet comes from
nodes or files instead; nothing here is a default.
"""
