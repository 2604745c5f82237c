"""The ``exact`` verifier: the same text, but for white space around it."""

from hetrl_runtime.data.reference_answer import target


def score(response: str, answer: str) -> float:
    """Return 1.0 where both say the same after their last ``####``, else 0.0."""
    return float(target(response) == target(answer))
