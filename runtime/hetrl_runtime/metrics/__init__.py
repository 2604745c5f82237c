"""What each process tells Prometheus: names, units, buckets, and the port they are served on.

One file a role. Labels are few and fixed; which job and pod a series belongs to is added by
the scraper. Measuring is left to the processes.
"""
