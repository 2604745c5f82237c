"""The simulated pipeline as a frozen value, and its compilation from a plan."""
