"""Simulated rollouts and inference: replicas, their GPUs, and the weights that reach them."""
