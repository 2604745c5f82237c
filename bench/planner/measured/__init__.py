"""The cost model and the simulator against step times that others have published.

`python -m bench.planner.measured` writes the page. Here belong the published rows, their
prediction with calibrated figures, and the fit. Not here: figures that ship; a fit only suggests.
"""
