"""The verifier of a job's answers, with the job's options.

``scoring`` decides where a verifier runs, and for how long it may.
"""

from functools import partial

from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward import regex
from hetrl_runtime.reward.verifiers import Verifier, verifier


def judge_of(data: DataSpec) -> Verifier:
    """Return the verifier of a job whose reward is not code of its user.

    Raises:
        ValueError: there is none of that name; the message names those that there are.
    """
    if data.regex:
        return partial(regex.score, pattern=data.regex.pattern)
    return verifier(data.reward)
