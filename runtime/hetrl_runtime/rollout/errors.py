"""Errors that end a rollout worker, besides the transport's.

EngineFailedError   restart the worker

UnknownTokenError is a ValueError of one request, whose prompt is given up.
"""


class EngineFailedError(RuntimeError):
    """An engine broke down and does not come back."""


class UnknownTokenError(ValueError):
    """A request has a token without a row in the model's embedding."""

    def __init__(self, token: int, num_rows: int) -> None:
        super().__init__(f"token {token} is not one of the {num_rows} of the model's embedding")
        self.token = token
        self.num_rows = num_rows
