"""Losses, advantages and returns, as pure functions of tensors."""
