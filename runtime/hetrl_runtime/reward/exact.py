"""The ``exact`` verifier: the same text, but for white space around it."""

from hetrl_runtime.data.reference_answer import target
from hetrl_runtime.reward.answers.final_answer import marked_line


def score(response: str, answer: str) -> float:
    """Return 1.0 where a response's last line ``#### ...`` says what the reference says.

    Without such a line the whole response must say it, after its reasoning.
    """
    return float(marked_line(response) == target(answer))
