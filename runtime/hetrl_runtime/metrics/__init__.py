"""Prometheus metrics of each process: names, units, buckets, and the port that serves them.

One file a role. Labels are few and fixed; the scraper adds the job and pod of a series. The
processes measure.
"""
