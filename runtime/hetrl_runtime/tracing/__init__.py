"""Spans of trajectories and steps, sent to an OpenTelemetry collector.

This package has the span interface, the sampling of groups and the export. The code that does the
work decides what gets a span. ``metrics`` has counts and durations over many spans. A job without
traces imports nothing of OpenTelemetry.
"""
