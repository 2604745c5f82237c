"""A real Kubernetes on this machine, without Docker."""
