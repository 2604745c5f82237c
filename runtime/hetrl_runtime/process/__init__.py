"""A process of a pod: launch contract, child processes, logs, graceful shutdown."""
