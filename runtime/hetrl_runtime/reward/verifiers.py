"""The verifier of a job: by the name of its reward, with the job's options.

Verifiers are entry points of the group ``hetrl.rewards``, so a package of the user's own adds one
without touching this code: a function of any form that ``signatures`` knows. ``scoring`` decides
where a verifier runs, and for how long it may.
"""

from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points

from hetrl_core.job.reward import Reward, RewardPart
from hetrl_runtime.reward import regex
from hetrl_runtime.reward.error_text import described
from hetrl_runtime.reward.signatures import SignatureError, call_of
from hetrl_runtime.reward.verdict import (
    Response,
    Unjudged,
    UnjudgedError,
    UnjudgedReason,
    Verdict,
    read_reward,
)

GROUP = "hetrl.rewards"

Verifier = Callable[..., object]
"""Takes a response and the prompt's reference answer; returns the reward, 1.0 for right."""

Judge = Callable[[Response], Verdict]


def judge_of(part: RewardPart) -> Judge:
    """Return the judge of a reward that is not code of its user.

    Raises:
        ValueError: there is none of that name; the message names those that there are.
    """
    if part.regex:
        pattern = part.regex.pattern
        return judge_by(lambda response, answer: regex.score(response, answer, pattern=pattern))
    if part.math:
        score, forms = verifier(part.reward), part.math.answer_forms
        return judge_by(lambda response, answer: score(response, answer, answer_forms=forms))
    return judge_by(verifier(part.reward))


def judge_by(function: Verifier) -> Judge:
    """Return a judge that calls a reward function and reads what it returns or raises.

    Raises:
        SignatureError: it is no reward function.
    """
    call = call_of(function)

    def judge(response: Response) -> Verdict:
        try:
            return read_reward(call(response))
        except UnjudgedError as error:
            return error.unjudged
        except SignatureError as error:
            return Unjudged(reason=UnjudgedReason.WRONG_SIGNATURE, detail=str(error))
        except Exception as error:  # Code of others may raise anything.
            return Unjudged(reason=UnjudgedReason.FUNCTION_RAISED, detail=described(error))

    return judge


@cache
def verifier(name: str) -> Verifier:
    """Return the verifier of a name.

    Raises:
        ValueError: there is none; the message names those that there are.
    """
    found = entry_points(group=GROUP)
    if name not in found.names:
        # Those with options of their own are made of these, here and by ``confinement``.
        known = sorted({*found.names, *Reward})
        near = get_close_matches(name, known, n=1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"data.reward must be one of {', '.join(known)}, got {name!r}{hint}")
    chosen: Verifier = found[name].load()
    return chosen
