"""Events that the simulator processes in a second of one core, on three kinds of pipeline.

A trajectory of the barest pipeline is one event: its end, its delivery, the next lease and its
start happen at one moment. Regions, and stages that score, add events that are smaller.

    .venv/bin/python -m bench.simulator [--steps 400] [--rounds 3]
"""

import argparse
import time
from dataclasses import replace

import numpy as np

from hetrl_planner.problem.lengths import lognormal_of_max
from hetrl_planner.simulator.pipeline.pipeline import (
    InferenceStage,
    Pipeline,
    RolloutGroup,
    TrainerSpec,
    WeightRoute,
)
from hetrl_planner.simulator.simulate import simulate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    bare = a_pipeline()
    for name, pipeline in {
        "bare": bare,
        "two regions": replace(
            bare,
            rollouts=(
                replace(bare.rollouts[0], upload_seconds=1e-4),
                replace(bare.rollouts[0], name="away", region="away", upload_seconds=0.06),
            ),
        ),
        "reference and reward": replace(
            bare,
            stages=(
                InferenceStage(name="reference", server_seconds=(0.02,) * 4),
                InferenceStage(name="reward", server_seconds=(0.05,) * 16),
            ),
        ),
    }.items():
        report(name, pipeline, steps=arguments.steps, rounds=arguments.rounds)


def a_pipeline() -> Pipeline:
    """Eight replicas of 64 places, B = 512, lengths with a tail."""
    return Pipeline(
        batch_size=512,
        group_size=8,
        max_staleness=2,
        lengths=lognormal_of_max(mean_tokens=512, max_tokens=2048),
        rollouts=(
            RolloutGroup(
                name="rollouts",
                region="here",
                num_replicas=8,
                token_seconds=tuple(0.01 + 0.0001 * running for running in range(1, 65)),
                prefill_seconds=0.002,
            ),
        ),
        trainer=TrainerSpec(step_seconds=4.0),
        routes=(WeightRoute(region="here", load_seconds=0.5),),
    )


def report(name: str, pipeline: Pipeline, *, steps: int, rounds: int) -> None:
    best = float("inf")
    for _ in range(rounds):
        # Processor time: neighbours on this machine must not count.
        started = time.process_time()
        result = simulate(pipeline, steps=steps, generator=np.random.default_rng(1))
        best = min(best, time.process_time() - started)
    trajectories = result.work.granted
    print(
        f"{name:22} {result.events / best:>10,.0f} events/s "
        f"{trajectories / best:>9,.0f} trajectories/s   "
        f"({result.events:,} events, {trajectories:,} trajectories, {best:.2f} s of one core)"
    )


if __name__ == "__main__":
    main()
