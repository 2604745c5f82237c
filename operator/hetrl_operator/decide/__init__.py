"""Decisions for one job: functions of the observed state and the time that return actions.

``job`` is the table of contents; each policy has a file. Everything here is pure and
level-triggered: it reads the current state, never a change, so a lost event or a crash only costs
time. ``reconcile`` observes the cluster and applies actions.
"""

from hetrl_operator.decide.job import decide

__all__ = ["decide"]
