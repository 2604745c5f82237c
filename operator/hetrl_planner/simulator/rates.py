"""A pipeline without a plan, told by its rates.

So that its staleness can be held against what others have measured of theirs.
"""

from hetrl_planner.lengths import Lengths
from hetrl_planner.refusals import above, at_least, multiple
from hetrl_planner.simulator.pipeline import (
    Failures,
    Pipeline,
    RolloutGroup,
    TrainerSpec,
    WeightRoute,
)

REGION = "local"
GROUP = "rollouts"


def pipeline_of_rates(
    *,
    concurrency: int,
    batch_size: int,
    rate_ratio: float,
    lengths: Lengths,
    group_size: int = 1,
    max_staleness: int | None = None,
    queue_capacity: int | None = None,
    replicas: int = 1,
    train_step_seconds: float = 1.0,
    load_sensitivity: float = 0.0,
    weight_sync_seconds: float = 0.0,
    minibatches: int = 1,
    streams_minibatches: bool = False,
    checkpoint_every_steps: int = 1,
    checks_consumption: bool = True,
    is_interruptible: bool = True,
    lends_groups: bool = False,
    filtered_share: float = 0.0,
    lease_seconds: float = 60.0,
    renews_leases: bool = True,
    failures: Failures | None = None,
) -> Pipeline:
    """Return a pipeline in which full generation is ``rate_ratio`` times as fast as training.

    With all ``C`` places running, trajectories of ``L`` tokens end at ``ratio·B/T``, so by
    Little's law a token takes ``t(C) = C·T/(ratio·B·L)``. With fewer, it takes
    ``t(C)·(1 - s + s·n/C)`` for a load sensitivity ``s``: 0 where places do not feel each
    other, 1 where a replica's total rate is fixed.

    Raises:
        ValueError: names the field, its limit and its value.
    """
    at_least("globalBatchSize", batch_size, 1)
    above("rateRatio", rate_ratio, 0)
    above("trainStepSeconds", train_step_seconds, 0)
    full = concurrency * train_step_seconds / (rate_ratio * batch_size * lengths.mean_tokens)
    rollouts = _rollouts(
        concurrency, replicas=replicas, full_token_seconds=full, load_sensitivity=load_sensitivity
    )
    return Pipeline(
        batch_size=batch_size,
        group_size=group_size,
        max_staleness=max_staleness,
        lengths=lengths,
        rollouts=(rollouts,),
        trainer=TrainerSpec(
            step_seconds=train_step_seconds,
            minibatches=minibatches,
            streams_minibatches=streams_minibatches,
            checkpoint_every_steps=checkpoint_every_steps,
        ),
        routes=(WeightRoute(region=REGION, load_seconds=weight_sync_seconds),),
        queue_capacity=queue_capacity,
        checks_consumption=checks_consumption,
        is_interruptible=is_interruptible,
        lends_groups=lends_groups,
        filtered_share=filtered_share,
        lease_seconds=lease_seconds,
        renews_leases=renews_leases,
        failures=failures or Failures(),
    )


def _rollouts(
    concurrency: int, *, replicas: int, full_token_seconds: float, load_sensitivity: float
) -> RolloutGroup:
    at_least("concurrency", concurrency, 1)
    at_least("replicas", replicas, 1)
    multiple("concurrency", concurrency, of="replicas", unit=replicas)
    if not 0 <= load_sensitivity <= 1:
        raise ValueError(f"loadSensitivity must be in [0, 1], got {load_sensitivity}")
    places = concurrency // replicas
    return RolloutGroup(
        name=GROUP,
        region=REGION,
        num_replicas=replicas,
        token_seconds=tuple(
            full_token_seconds * (1 - load_sensitivity + load_sensitivity * running / places)
            for running in range(1, places + 1)
        ),
    )
