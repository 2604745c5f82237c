"""Rollouts without a plan, described by their rate relative to the trainer's.

They serve to compare a pipeline's staleness with published measurements.
"""

from hetrl_planner.problem.checks import above, at_least, multiple
from hetrl_planner.simulator.pipeline.pipeline import RolloutGroup

REGION = "local"
GROUP = "rollouts"


def rollouts_of_rates(
    *,
    concurrency: int,
    batch_size: int,
    rate_ratio: float,
    mean_tokens: float,
    replicas: int = 1,
    train_step_seconds: float = 1.0,
    load_sensitivity: float = 0.0,
) -> RolloutGroup:
    """Return rollouts whose full generation is ``rate_ratio`` times as fast as training.

    With all ``C`` places running, trajectories of ``L`` tokens end at ``ratio·B/T``, so by
    Little's law a token takes ``t(C) = C·T/(ratio·B·L)``. With fewer, it takes
    ``t(C)·(1 - s + s·n/C)`` for a load sensitivity ``s``: 0 if places do not feel each
    other, 1 where a replica's total rate is fixed.

    Raises:
        ValueError: names the field, its limit and its value.
    """
    at_least("globalBatchSize", batch_size, 1)
    above("rateRatio", rate_ratio, 0)
    above("trainStepSeconds", train_step_seconds, 0)
    at_least("concurrency", concurrency, 1)
    at_least("replicas", replicas, 1)
    multiple("concurrency", concurrency, of="replicas", unit=replicas)
    if not 0 <= load_sensitivity <= 1:
        raise ValueError(f"loadSensitivity must be in [0, 1], got {load_sensitivity}")
    full = concurrency * train_step_seconds / (rate_ratio * batch_size * mean_tokens)
    places = concurrency // replicas
    return RolloutGroup(
        name=GROUP,
        region=REGION,
        num_replicas=replicas,
        token_seconds=tuple(
            full * (1 - load_sensitivity + load_sensitivity * running / places)
            for running in range(1, places + 1)
        ),
    )
