"""Spans: how trajectories and steps went, told to a collector of OpenTelemetry.

Belongs here: what a span is to the other rooms, which groups are traced, and how spans leave.
What is worth a span is decided where the work is done. Counts and durations over many are
``metrics``'. Where a job asks for no traces nothing of OpenTelemetry is imported.
"""
