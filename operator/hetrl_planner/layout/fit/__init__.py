"""Splits of one replica that fit the memory of a site's GPUs, the fastest first."""
