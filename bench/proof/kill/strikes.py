"""Which process is struck, when and how: drawn from a seed, the same for the same seed.

Pure. A strike waits for a number of versions and then for a moment, so that the same seed hits
the same stages of a run on any machine, though not the same instruction.
"""

import random
import signal
from dataclasses import dataclass

from bench.proof.kill.arrangement import Layout
from hetrl_core.task import Role

_USUAL = (Role.COORDINATOR, Role.ROLLOUT, Role.TRAINER, Role.COORDINATOR, Role.ROLLOUT)
_IN_TURN = {
    Layout.USUAL: _USUAL,
    Layout.CRITIC_APART: _USUAL,
    Layout.REFERENCE_APART: (*_USUAL, Role.INFERENCE, Role.INFERENCE),
    Layout.SHARED: (Role.COORDINATOR, Role.TRAINER, Role.TRAINER),
}
"""Who is struck how often: of five strikes two are at rollouts, where these are pods."""

_TERM_SHARE = 0.15
_AT_ONCE_SHARE = 0.35
"""Of strikes that do not wait for anybody to have recovered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One blow."""

    role: Role
    pick: int
    """Which process of the role, modulo how many there are."""

    number: signal.Signals
    after_versions: int
    """Versions to be made first since the strike before."""

    delay_seconds: float


def strikes(seed: int, count: int, *, layout: Layout = Layout.USUAL) -> tuple[Strike, ...]:
    """Draw strikes at the processes of a layout."""
    rng = random.Random(f"strikes/{seed}")
    in_turn = _IN_TURN[layout]
    roles = [in_turn[number % len(in_turn)] for number in range(count)]
    rng.shuffle(roles)
    return tuple(
        Strike(
            role=role,
            pick=rng.randrange(8),
            number=signal.SIGTERM if rng.random() < _TERM_SHARE else signal.SIGKILL,
            after_versions=0 if rng.random() < _AT_ONCE_SHARE else rng.randint(1, 2),
            delay_seconds=rng.uniform(0.0, 1.5),
        )
        for role in roles
    )
