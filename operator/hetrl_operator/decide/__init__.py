"""What to do next for one job: from what we saw and the time to a list of actions.

``job`` is the table of contents; each policy has a file. Everything here is pure and
level-triggered: it asks what is, never what changed, so a lost event or a crash half-way
costs nothing but time. Reading the cluster and carrying actions out are left to others.
"""

from hetrl_operator.decide.job import decide

__all__ = ["decide"]
