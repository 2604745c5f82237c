"""Errors that end a rollout worker, besides the transport's.

EngineFailedError   restart the worker
ModelNotFoundError  a ValueError: mend the job
"""


class EngineFailedError(RuntimeError):
    """An engine broke down and does not come back."""


class ModelNotFoundError(ValueError):
    """There is no such model; the message names where it was looked for."""
