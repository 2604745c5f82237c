"""Memory and precision of tensors, shared by trainer, rollout and inference."""
