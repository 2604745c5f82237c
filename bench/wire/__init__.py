"""Measures what crosses the wire: trajectories into the coordinator, weights out of the trainer.

Real processes over loopback with mutual TLS; each side is given a core of its own. Nothing here
proves that a run is right: that is ``tests`` and ``bench.proof``.
"""
