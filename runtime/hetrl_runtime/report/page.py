"""The report page: a record and its pictures as one HTML file that needs nothing else."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from hetrl_core.job.spec import DataSpec
from hetrl_core.plan.plan import ReplicaGroup
from hetrl_core.task import Task
from hetrl_core.units import gib
from hetrl_runtime.report.plots import SERIES, to_svg
from hetrl_runtime.report.record import Record, Sample
from hetrl_runtime.report.summary import (
    final_parts,
    final_reward,
    first_parts,
    samples_per_second,
)

_TASK_NAMES = {
    Task.ACTOR_GENERATION: "generation",
    Task.ACTOR_TRAINING: "training",
    Task.REFERENCE_INFERENCE: "reference",
    Task.REWARD_INFERENCE: "reward",
    Task.CRITIC_INFERENCE: "critic",
    Task.CRITIC_TRAINING: "critic training",
}
_CAPTIONS = {
    "reward": ("Reward", "Mean of each batch, and its moving mean."),
    "staleness": ("Staleness", "Of every trajectory trained on, against the bound."),
    "throughput": ("Throughput", "Trajectories trained on per second."),
    "idle": (
        "Idle",
        "The trainer waits for a batch, a rollout worker for a prompt.",
    ),
}
_SHORT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure at the top of the page."""

    label: str
    value: str
    note: str = ""


def page(record: Record, figures: Mapping[str, Figure]) -> str:
    """Write the page; figures are drawn into it."""
    # A response may contain anything, markup included.
    environment = Environment(
        loader=PackageLoader("hetrl_runtime.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    launch, prediction = record.launch, record.plan.prediction
    return environment.get_template("page.html.jinja").render(
        job=f"{launch.job.namespace}/{launch.job.name}",
        outcome=record.outcome,
        succeeded=record.outcome == "Succeeded",
        message=record.message,
        model=launch.model.source.rstrip("/").rpartition("/")[2] or launch.model.source,
        algorithm=f"{launch.algorithm.type}, {launch.algorithm.mode.lower()}",
        engine=launch.engine,
        tiles=_tiles(record),
        plots=[
            {
                "title": _CAPTIONS[name][0],
                "caption": _CAPTIONS[name][1],
                "svg": to_svg(figure),
            }
            for name, figure in figures.items()
        ],
        plan_sentence=(
            f"{record.plan.num_gpus} GPUs at ${prediction.dollars_per_hour:.2f} an hour, found by "
            f"{record.plan.strategy}. What binds: {prediction.bottleneck}."
        ),
        plan_picture=_data_uri(record.picture) if record.picture else "",
        groups=[_group_row(group) for group in record.plan.groups],
        comparison=_comparison(record),
        samples=[_sample_row(sample) for sample in record.samples],
        settings=_settings(record),
        events=record.events,
    )


def _data_uri(svg: bytes) -> str:
    """Write a picture as an address that holds it: as an image it can run nothing."""
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"


def _tiles(record: Record) -> list[Tile]:
    steps = record.steps
    bound = record.launch.algorithm.max_staleness
    tiles = [Tile("Steps", f"{len(steps)}", f"of {record.launch.training.steps}")]
    if steps:
        final = final_reward(record)
        tiles.append(
            Tile("Reward", f"{final:.3f}", f"{steps[0].reward_mean:.3f} at the first step")
        )
        first = first_parts(record)
        tiles += [
            Tile(f"Reward {name}", f"{mean:.3f}", f"{first[name]:.3f} at the first step")
            for name, mean in final_parts(record).items()
        ]
    if record.before and record.after:
        tiles.append(
            Tile(
                "Held-out accuracy",
                f"{record.after.share:.1%}",
                f"{record.before.share:.1%} before, {record.after.problems:,} problems",
            )
        )
    if steps:
        tiles += [
            Tile(
                "Staleness",
                f"{record.mean_staleness:.2f}",
                f"mean; largest {max(record.staleness, default=0)}, bound {bound}",
            ),
            Tile("Throughput", f"{samples_per_second(record):.1f}", "trajectories per second"),
        ]
    if record.wall_seconds is not None:
        tiles.append(Tile("Wall time", *_duration(record.wall_seconds)))
    return tiles


def _duration(seconds: float) -> tuple[str, str]:
    """Return a duration as a number and its unit."""
    minutes, rest = divmod(round(seconds), 60)
    return (f"{minutes}:{rest:02}", "minutes") if minutes else (f"{seconds:.1f}", "seconds")


def _step_time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= _SHORT_SECONDS else f"{seconds * 1000:.3g} ms"


def _group_row(group: ReplicaGroup) -> dict[str, str]:
    return {
        "task": " + ".join(_TASK_NAMES[task] for task in group.tasks),
        "gpus": f"{group.num_gpus} x {group.gpu_kind}",
        "region": group.region,
        "replicas": str(len(group.replicas)),
        "split": str(group.parallelism),
        "memory": gib(group.memory.total_bytes),
        "concurrency": str(group.concurrency or "-"),
        "rate": f"{group.samples_per_second * len(group.replicas):,.1f}/s",
    }


def _comparison(record: Record) -> list[dict[str, str]]:
    prediction = record.plan.prediction
    if not record.steps:
        return []
    return [
        {
            "name": "step, median",
            "predicted": _step_time(prediction.step_seconds),
            "measured": _step_time(record.median_step_seconds),
        },
        {
            "name": "trajectories per second",
            "predicted": f"{prediction.samples_per_second:,.1f}",
            "measured": f"{samples_per_second(record):,.1f}",
        },
        {
            "name": "mean staleness",
            "predicted": f"{prediction.mean_staleness:.2f}",
            "measured": f"{record.mean_staleness:.2f}",
        },
    ]


def _sample_row(sample: Sample) -> dict[str, object]:
    return {
        "step": sample.step,
        "reward": f"{sample.reward:g}",
        "reward_parts": ", ".join(
            f"{name} {reward:g}" for name, reward in sorted(sample.reward_parts.items())
        ),
        "staleness": sample.staleness,
        "question": sample.question,
        "answer": sample.answer,
        "spans": [
            {
                "by": f"version {span.version}" if span.version >= 0 else "a tool",
                "num_tokens": span.num_tokens,
                "text": span.text,
                "mark": f"v{span.version % len(SERIES)}" if span.version >= 0 else "tool",
            }
            for span in sample.spans
        ],
    }


def _settings(record: Record) -> Sequence[tuple[str, object]]:
    launch = record.launch
    algorithm, data, training = launch.algorithm, launch.data, launch.training
    return (
        ("model", launch.model.source),
        ("prompts", ", ".join(map(str, data.prompt_sets))),
        ("trajectories in a batch", algorithm.global_batch_size),
        ("trajectories of a prompt", algorithm.group_size),
        ("minibatches of a batch", algorithm.minibatches),
        ("tokens of a prompt, at most", data.max_prompt_tokens),
        ("tokens of a response, at most", data.max_response_tokens),
        ("tools", ", ".join(data.tools) or "none"),
        ("learning rate", f"{training.learning_rate:g}"),
        ("seed", training.seed),
        ("rewards", "shuffled, as a control" if training.shuffle_rewards else _rewards(data)),
        ("discarded by the strict check", sum(step.discarded for step in record.steps)),
        ("run", launch.job.uid),
    )


def _rewards(data: DataSpec) -> str:
    if not data.rewards:
        return data.reward
    return " + ".join(f"{each.weight:g} x {each.name} ({each.reward})" for each in data.rewards)
