"""The length penalty of a response, whatever its reward otherwise."""

from hetrl_core.job.reward import LengthPenalty


def length_penalty(num_tokens: int, *, max_tokens: int, penalty: LengthPenalty) -> float:
    """Return what to take off a reward: zero until the buffer, all of ``weight`` at the limit.

    The soft overlong punishment of DAPO (arXiv:2503.14476, section 3.4): it grows evenly over
    the last ``buffer_tokens`` that a response may have.

    >>> length_penalty(75, max_tokens=100, penalty=LengthPenalty(buffer_tokens=50, weight=2.0))
    1.0
    """
    beyond = num_tokens - (max_tokens - penalty.buffer_tokens)
    return penalty.weight * min(1.0, max(0.0, beyond / penalty.buffer_tokens))
