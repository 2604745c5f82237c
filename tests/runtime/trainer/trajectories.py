"""Trajectories for tests of the trainer."""

from collections.abc import Sequence

import numpy as np

from hetrl_runtime.wire.trajectory import SampledTrajectory


def a_trajectory(
    *,
    group: int = 0,
    member: int = 0,
    prompt: Sequence[int] = (5, 6),
    response: Sequence[int] | None = None,
    log_probs: Sequence[float] | None = None,
    versions: Sequence[int] = (0, 0),
    reward: float = 0.0,
) -> SampledTrajectory:
    """A trajectory with one response token for each version."""
    size = len(versions) if response is None else len(response)
    return SampledTrajectory(
        group=group,
        member=member,
        epoch=1,
        process="rollout-0",
        prompt_tokens=np.array(prompt, np.int32),
        response_tokens=np.array(range(7, 7 + size) if response is None else response, np.int32),
        behaviour_log_probs=np.array([-1.0] * size if log_probs is None else log_probs, np.float32),
        token_versions=np.array(
            versions if len(versions) == size else [versions[0]] * size, np.int32
        ),
        reward=reward,
        finish_reason="stop",
    )
