"""The error of a model that no restart mends; needs neither torch nor a network."""


class ModelError(ValueError):
    """The model cannot be used; the message names it and says why."""
