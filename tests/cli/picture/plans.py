"""Plans to draw, each with the fleet that it is for."""

from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link, Machine
from hetrl_core.job.spec import JobSpec, Strategy
from hetrl_core.plan.plan import (
    MemoryUse,
    Parallelism,
    Plan,
    Prediction,
    Replica,
    ReplicaGroup,
    Share,
)
from hetrl_core.task import Task
from tests.builders import a_job, a_kind

TRAIN, GENERATE = Task.ACTOR_TRAINING, Task.ACTOR_GENERATION
VALUES = Task.CRITIC_INFERENCE
JOB = a_job("Qwen3-8B")
PREDICTION = Prediction(
    step_seconds=6.24,
    generation_seconds=6.24,
    training_seconds=4.86,
    weight_sync_seconds=1.31,
    samples_per_second=80.0,
    dollars_per_hour=123.2,
    mean_staleness=1.9,
    bottleneck="generation: HBM bandwidth of the A100-40GBs",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a picture is made of."""

    fleet: ClusterSnapshot
    plan: Plan
    job: JobSpec = JOB


def group(
    tasks: Task | tuple[Task, ...],
    replicas: Sequence[Sequence[tuple[str, int] | tuple[str, int, int]]],
    *,
    tensor: int = 1,
    layers: tuple[int, ...] = (36,),
    share: float = 0.0,
) -> ReplicaGroup:
    """Replicas by their shares: machine, GPUs, and the first of them where it is said.

    ``share`` is each replica's part of the work; unset, they divide all of it.
    """
    return ReplicaGroup(
        tasks=tasks if isinstance(tasks, tuple) else (tasks,),
        gpu_kind="A100-40GB",
        region="unset",
        parallelism=Parallelism(tensor=tensor, stage_layers=layers),
        replicas=tuple(
            Replica(
                shares=tuple(
                    Share(machine=name, num_gpus=number, first_gpu=first[0] if first else None)
                    for name, number, *first in shares
                ),
                work_share=share or 1 / len(replicas),
            )
            for shares in replicas
        ),
        memory=MemoryUse(weights_bytes=2**30),
    )


def a_case(
    machines: dict[str, tuple[str, int]],
    groups: Sequence[ReplicaGroup],
    *,
    links: tuple[Link, ...] = (),
) -> Case:
    """Machines by name, each with its region and number of GPUs."""
    fleet = ClusterSnapshot(
        gpu_kinds=(a_kind("A100-40GB"), a_kind("L4")),
        machines=tuple(
            Machine(
                name=name,
                gpu_kind="L4" if "l4" in name else "A100-40GB",
                num_gpus=number,
                region=region,
            )
            for name, (region, number) in machines.items()
        ),
        links=links,
    )
    plan = Plan(strategy=Strategy.AUTO, groups=tuple(groups), prediction=PREDICTION, gap=0.12)
    return Case(fleet=fleet, plan=plan)


def pipelines() -> Case:
    """Two alike machines that generate; six that hold a stage of each of eight replicas."""
    stages = [f"train-l4-{number}" for number in range(6)]
    return a_case(
        dict.fromkeys(["a100-000", "a100-001", *stages, "spare-l4-0"], ("us-east", 8)),
        [
            group(TRAIN, [[(name, 1) for name in stages]] * 8, layers=(7, 3, 3, 9, 9, 5)),
            group(GENERATE, [[(f"a100-00{n // 2}", 4)] for n in range(4)], tensor=4),
        ],
    )


def two_regions() -> Case:
    """A trainer whose first 16 layers are in Ohio and 20 in Virginia; both regions generate."""
    return a_case(
        {
            "virginia-a100-0": ("Virginia", 8),
            "ohio-a100-0": ("Ohio", 8),
            "ohio-l4-0": ("Ohio", 8),
            "tokyo-l4-0": ("Tokyo", 8),
        },
        [
            group(TRAIN, [[("ohio-l4-0", 1), ("virginia-a100-0", 1)]] * 6, layers=(16, 20)),
            group(GENERATE, [[("ohio-a100-0", 4)]] * 2, tensor=4, share=0.4),
            group(GENERATE, [[("virginia-a100-0", 2)]], tensor=2, share=0.2),
        ],
        links=(
            Link(source="Virginia", target="Ohio", bytes_per_second=0.625e9, latency_seconds=5e-3),
        ),
    )


def shared() -> Case:
    """One machine: six GPUs train in pairs, the first four of them generate, one more scores."""
    return a_case(
        {"a100-0": ("local", 8)},
        [
            group(TRAIN, [[("a100-0", 2, first)] for first in (0, 2, 4)], layers=(18, 18)),
            group(GENERATE, [[("a100-0", 4, 0)]], tensor=4),
            group(VALUES, [[("a100-0", 1)]]),
        ],
    )


def together() -> Case:
    """Training and values cut alike, on the same GPUs; a machine of its own generates."""
    return a_case(
        {"a100-0": ("local", 4), "l4-0": ("local", 2)},
        [
            group((TRAIN, VALUES), [[("a100-0", 2)], [("a100-0", 2)]], tensor=2),
            group(GENERATE, [[("l4-0", 1)]]),
        ],
    )


def ten_thousand() -> Case:
    """10,240 GPUs: 160 replicas that train over three machines each, and 1,280 that generate."""
    training = [f"a100-{number:03}" for number in range(480)]
    fours = [f"l4-{number:03}" for number in range(320)]
    eights = [f"more-l4-{number:03}" for number in range(480)]
    thirds = [training[first : first + 3] for first in range(0, 480, 3)]
    return a_case(
        dict.fromkeys([*training, *fours, *eights], ("us-east", 8)),
        [
            group(
                TRAIN,
                [[(name, 8) for name in names] for names in thirds],
                tensor=4,
                layers=(4, 7, 7, 7, 7, 4),
            ),
            group(GENERATE, [[(name, 4)] for name in fours for _ in range(2)], tensor=4),
            group(GENERATE, [[(name, 8)] for name in eights], tensor=8),
        ],
    )


def motley() -> Case:
    """Twenty machines of which no two are used alike: one trains on n GPUs and generates on m."""
    sizes = [(train, generate) for train in range(1, 5) for generate in range(5)]
    names = [f"a100-{train}-{generate}" for train, generate in sizes]
    return a_case(
        dict.fromkeys(names, ("local", 8)),
        [
            group(
                TRAIN,
                [
                    [(name, 1)]
                    for name, (train, _) in zip(names, sizes, strict=True)
                    for _ in range(train)
                ],
            ),
            group(
                GENERATE,
                [
                    [(name, 1)]
                    for name, (_, generate) in zip(names, sizes, strict=True)
                    for _ in range(generate)
                ],
            ),
        ],
    )


CASES = (pipelines, two_regions, shared, together, ten_thousand, motley)
