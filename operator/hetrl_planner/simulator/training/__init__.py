"""The simulated trainer, its turns on shared GPUs, and failures."""
