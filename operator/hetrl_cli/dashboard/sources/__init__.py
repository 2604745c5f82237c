"""Sources of a board's data: Prometheus, recorded runs, and watched cluster jobs."""
