"""Trajectories for tests, with defaults."""

from collections.abc import Mapping, Sequence

import numpy as np

from hetrl_runtime.wire import codec
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import SampledTrajectory


def a_trajectory(
    group: int = 0,
    member: int = 0,
    *,
    versions: Sequence[int] = (0, 0, 0),
    epoch: int = 1,
    process: str = "rollout-l4-0-0",
    reward: float = 1.0,
    num_prompt_tokens: int = 5,
    is_scored: bool = False,
    reward_parts: Mapping[str, float] | None = None,
) -> SampledTrajectory:
    """Return a trajectory with tokens of the given versions; a reference has scored it if
    ``is_scored``."""
    size = len(versions)
    return SampledTrajectory(
        group=group,
        member=member,
        epoch=epoch,
        process=process,
        prompt_tokens=np.arange(num_prompt_tokens, dtype=np.int32),
        response_tokens=np.arange(size, dtype=np.int32),
        behaviour_log_probs=np.full(size, -0.5, dtype=np.float32),
        token_versions=np.asarray(versions, dtype=np.int32),
        reward=reward,
        reward_parts=reward_parts or {},
        finish_reason="stop",
        response_text="42",
        question="What is 6 times 7?",
        answer="#### 42",
        reference_log_probs=np.full(size, -0.25, dtype=np.float32) if is_scored else None,
    )


def delivered(trajectory: SampledTrajectory) -> DeliveredTrajectory:
    """The same, as it came over the wire."""
    found = codec.receive_trajectory(codec.encode_trajectory(trajectory))
    assert isinstance(found, DeliveredTrajectory), found
    return found
