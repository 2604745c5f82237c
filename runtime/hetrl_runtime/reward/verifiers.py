"""The verifier of a job's answers: by the name that the job gives it, and with the job's options.

Verifiers are entry points of the group ``hetrl.rewards``, so a package of the user's own
adds one without touching this code.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import entry_points

from hetrl_core.job.spec import DataSpec, Reward
from hetrl_runtime.reward import regex

GROUP = "hetrl.rewards"

Verifier = Callable[[str, str], float]
"""Takes a response and the prompt's reference answer; returns the reward, 1.0 for right."""


def verifier_of(data: DataSpec) -> Verifier:
    """Return the verifier of a job whose reward is not code of its user.

    Raises:
        ValueError: there is none of that name; the message names those that there are.
    """
    if data.regex:
        return partial(regex.score, pattern=data.regex.pattern)
    return verifier(data.reward)


@cache
def verifier(name: str) -> Verifier:
    """Return the verifier of a name.

    Raises:
        ValueError: there is none; the message names those that there are.
    """
    found = entry_points(group=GROUP)
    if name not in found.names:
        # Those with options of their own are made of these, by ``verifier_of`` and ``confinement``.
        known = ", ".join(sorted({*found.names, *Reward}))
        raise ValueError(f"data.reward must be one of {known}, got {name!r}")
    chosen: Verifier = found[name].load()
    return chosen
