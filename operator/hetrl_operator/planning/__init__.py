"""The planning service: requests, free capacity, reservations and the planner's processes.

How a plan is found is left to ``hetrl_planner``.
"""
