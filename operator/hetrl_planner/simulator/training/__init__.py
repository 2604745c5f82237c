"""The simulated trainer, its turns on shared GPUs, and the losses that it survives."""
