"""Sources of a board's data: Prometheus, recorded runs, and jobs of a cluster."""
