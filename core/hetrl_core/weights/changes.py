"""The share of a version's bytes that a patch of it has."""

from math import exp, log

from hetrl_core.weights.constants import CHANGED, PACKED

SERVED = "bfloat16"
"""The type of weights that rollouts get on GPUs."""


def changed_share(learning_rate: float, *, number: str = SERVED) -> float:
    """Return the bytes of one version's patch over those of the weights.

    Between and beyond the measured learning rates on the line through their logarithms; never more
    than a patch that needs no base.
    """
    if learning_rate <= 0:
        return 0.0
    (low, least), (high, most) = sorted(CHANGED[number].items())
    slope = log(most / least) / log(high / low)
    return min(PACKED[number], least * exp(slope * log(learning_rate / low)))


def mean_share(learning_rate: float, *, versions: int, number: str = SERVED) -> float:
    """Return the bytes of a version of a run over those of the weights: the first goes whole."""
    shares = PACKED[number] + max(0, versions - 1) * changed_share(learning_rate, number=number)
    return shares / max(1, versions)
