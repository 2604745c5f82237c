"""A run in a few figures, for programs; the page says the same to people."""

from collections.abc import Mapping
from statistics import fmean

from hetrl_runtime.report.record import Record

NUM_FINAL_STEPS = 10
"""Steps that the final reward is averaged over: one batch alone is noisy."""


def summary(record: Record) -> dict[str, object]:
    """Return the figures of a run; None where it has none."""
    steps = record.steps
    return {
        "outcome": record.outcome,
        "message": record.message,
        "steps": len(steps),
        "total_steps": record.launch.training.steps,
        "reward_first": steps[0].reward_mean if steps else None,
        "reward_final": final_reward(record) if steps else None,
        "reward_parts_first": first_parts(record),
        "reward_parts_final": final_parts(record),
        "tool_share_first": steps[0].tool_share if steps else None,
        "tool_share_final": final_tool_share(record) if steps else None,
        "trajectories": record.staleness.total(),
        "staleness_mean": record.mean_staleness,
        "staleness_max": max(record.staleness, default=0),
        "max_staleness": record.launch.algorithm.max_staleness,
        "discarded": sum(step.discarded for step in steps),
        "samples_per_second": samples_per_second(record) if steps else None,
        "step_seconds_median": record.median_step_seconds,
        "step_seconds_predicted": record.plan.prediction.step_seconds,
        "accuracy_before": record.before.share if record.before else None,
        "accuracy_after": record.after.share if record.after else None,
        "held_out_problems": record.after.problems if record.after else None,
        "learning_rate": record.launch.training.learning_rate,
        "shuffled_rewards": record.launch.training.shuffle_rewards,
        "restarts": len(record.events),
        "run_wall_seconds": record.wall_seconds,
    }


def final_reward(record: Record) -> float:
    """Return the mean reward of the last steps."""
    return fmean(step.reward_mean for step in record.steps[-NUM_FINAL_STEPS:])


def first_parts(record: Record) -> Mapping[str, float]:
    """Return the mean of each of the job's rewards at the first step that has it."""
    found: dict[str, float] = {}
    for step in record.steps:
        found = {**step.reward_parts, **found}
    return {name: found[name] for name in sorted(found)}


def final_parts(record: Record) -> Mapping[str, float]:
    """Return the mean of each of the job's rewards over the last steps that have it."""
    last = [step.reward_parts for step in record.steps[-NUM_FINAL_STEPS:]]
    names = sorted({name for parts in last for name in parts})
    return {name: fmean(parts[name] for parts in last if name in parts) for name in names}


def final_tool_share(record: Record) -> float:
    """Return the share of trajectories that called a tool, over the last steps."""
    return fmean(step.tool_share for step in record.steps[-NUM_FINAL_STEPS:])


def samples_per_second(record: Record) -> float:
    """Return the trajectories trained on per second, from the first commit to the last."""
    seconds = record.steps[-1].time_seconds - record.steps[0].time_seconds
    trained = sum(step.num_trained for step in record.steps[1:])
    return trained / seconds if seconds > 0 else record.steps[-1].samples_per_second
