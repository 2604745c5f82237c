"""The ways of weights from a trainer to its rollouts, and what each costs by measurement.

Planner, simulator, replanner and runtime read these figures and nothing else: a figure that is
measured again changes here, with its source.
"""
