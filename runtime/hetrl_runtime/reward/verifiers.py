"""Finding a verifier by the name that a job gives it.

Verifiers are entry points of the group ``hetrl.rewards``, so a package of the user's own
adds one without touching this code.
"""

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points

from hetrl_core.job.spec import Reward

GROUP = "hetrl.rewards"

Verifier = Callable[[str, str], float]
"""Takes a response and the prompt's reference answer; returns the reward, 1.0 for right."""


@cache
def verifier(name: str) -> Verifier:
    """Return the verifier of a name.

    Raises:
        ValueError: there is none; the message names those that there are.
    """
    found = entry_points(group=GROUP)
    if name not in found.names:
        # Those with options of their own are made of these, by ``judge`` and ``confinement``.
        known = ", ".join(sorted({*found.names, *Reward}))
        raise ValueError(f"data.reward must be one of {known}, got {name!r}")
    chosen: Verifier = found[name].load()
    return chosen
