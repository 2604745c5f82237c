"""Spans of trajectories and steps, sent to an OpenTelemetry collector.

This package has the span interface, the current span, the traces of groups and the export. Code
that does the work decides what gets a span. ``metrics`` has counts and durations over many spans. A
job without traces imports nothing of OpenTelemetry.
"""
