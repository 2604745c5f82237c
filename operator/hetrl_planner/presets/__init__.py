"""Fleets and networks that ship: published regions and links, and scenarios made of them.

Each says where its figures are from, and which of them are ours. What a user's own fleet is
comes from nodes or files instead; nothing here is a default of anything.
"""
