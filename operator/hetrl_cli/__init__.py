"""``hetrl`` and ``kubectl hetrl``: what a person types.

Commands parse, call another room and print. Planning commands live here; those of the
runtime are found as entry points. ``run`` starts processes only through the launch
contract. No torch here.
"""
