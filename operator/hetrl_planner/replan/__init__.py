"""Changes of a running plan: resized or better rollouts, and validation of a manual plan."""
