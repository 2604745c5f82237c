"""Metrics of a local run: scraped from its processes and recorded in its folder."""
