"""A published run as the cost model sees it: fleet, layout, and constants set for one prediction.

The published split is made a layout, GPU by GPU, and priced as any other; nothing is planned.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from bench.planner.baselines.pools import Cut, pool, serving, training
from bench.planner.measured.calibration import Parameters
from bench.planner.measured.case import Run
from hetrl_core.fleet.snapshot import ClusterSnapshot, Link, Machine
from hetrl_core.job.spec import ResourcesSpec
from hetrl_core.task import Task
from hetrl_planner.cost import generation, memory
from hetrl_planner.cost.shard import Shard
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import Layout, TaskLayout
from hetrl_planner.problem.sites import sites

REGION = "local"
LATENCY_SECONDS = 50e-6
BOUNDLESS_BYTES = 10 * 2**40
"""What ran did fit; how much an engine runs at once is counted with the GPU's own memory."""


@contextmanager
def constants(run: Run, parameters: Parameters) -> Iterator[None]:
    """Set what the cost model has as constants of its own."""
    with (
        patch.object(generation, "ENGINE_STEP_SECONDS", parameters.engine_step_seconds),
        patch.object(memory, "MAX_CONCURRENCY", places(run)),
    ):
        yield


def places(run: Run) -> int:
    """Return how many sequences an engine of a run holds."""
    shard = Shard(
        architecture=run.work.architecture,
        tensor=run.generation.tensor,
        is_first=True,
        num_layers=run.work.architecture.num_layers,
        is_last=True,
    )
    with patch.object(memory, "MAX_CONCURRENCY", run.max_num_seqs):
        return memory.max_concurrency(shard, run.kind, run.work)


def evaluator_of(
    run: Run, parameters: Parameters, *, memory_bytes: int = BOUNDLESS_BYTES
) -> Evaluator:
    """Return what prices a run: its fleet, with the parameters put in."""
    kind = replace(
        run.kind,
        compute_efficiency=parameters.compute_efficiency,
        memory_efficiency=parameters.memory_efficiency,
        memory_bytes=memory_bytes,
    )
    snapshot = ClusterSnapshot(
        gpu_kinds=(kind,),
        machines=tuple(
            Machine(
                name=f"machine-{number:02}",
                gpu_kind=kind.name,
                region=REGION,
                num_gpus=min(run.gpus_per_machine, run.num_gpus - first),
            )
            for number, first in enumerate(range(0, run.num_gpus, run.gpus_per_machine))
        ),
        links=(
            Link(
                source=REGION,
                target=REGION,
                bytes_per_second=run.link_bytes_per_second,
                latency_seconds=LATENCY_SECONDS,
            ),
        ),
    )
    devices = Devices(snapshot=snapshot, sites=sites(snapshot, ResourcesSpec()))
    return Evaluator(run.work, devices)


def layout_of(run: Run, devices: Devices) -> Layout:
    """Return who does what on which GPU, as published."""
    gpus = pool(devices, range(devices.num_machines))
    rollouts = gpus if run.shares_gpus else gpus.head(run.generation.num_gpus)
    trainers = gpus if run.shares_gpus else gpus.tail(run.generation.num_gpus)
    cut = Cut(tensor=run.training.tensor, num_stages=run.training.stages, mode=run.mode)
    generated = serving(Task.ACTOR_GENERATION, rollouts, run.work, tensor=run.generation.tensor)
    trained = training(Task.ACTOR_TRAINING, trainers, run.work, cut)
    assert generated
    assert trained
    scored = [
        TaskLayout(task, trained.replicas)
        for task in run.work.tasks
        if task is Task.REFERENCE_INFERENCE
    ]
    if run.shares_gpus:
        return Layout(((generated, *scored, trained),))
    return Layout(((generated,), (*scored, trained)))


def evaluated(run: Run, evaluator: Evaluator) -> Evaluation:
    """Return what a run's layout costs."""
    found = evaluator.evaluate(layout_of(run, evaluator.devices))
    assert isinstance(found, Evaluation), found.reason
    return found
