"""Guards of a run's numbers: steps that are not finite, and an engine that computes another model.

``step_guard`` measures, and all processes come to the same result. The others are pure: they decide
how the run goes on.
"""
