from dataclasses import replace

import numpy as np
import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.algorithm import Mode
from hetrl_core.job.spec import ResourcesSpec
from hetrl_core.plan.plan import REPLICATED
from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.groupings import groupings
from hetrl_planner.hetrl.search.genome_of import genome_of
from hetrl_planner.hetrl.search.starts import Starts
from hetrl_planner.hetrl.search.variation import Variation
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.layout.layout import Layout, PipelineStage, TaskLayout, faults
from hetrl_planner.layout.to_plan import replica_groups
from hetrl_planner.phase1.iterate import Searcher
from hetrl_planner.phase1.space import space_of
from hetrl_planner.phase1.to_layout import layout_of
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.problem.sites import sites
from hetrl_planner.problem.workload import Workload, workload
from tests.builders import ARCHITECTURES, a_fleet, a_job, both

MODEL = ARCHITECTURES["Qwen3-1.7B"]
LAYERS = MODEL.num_layers
PPO = tuple(Task)


def devices_of(fleet: ClusterSnapshot) -> Devices:
    return Devices(snapshot=fleet, sites=sites(fleet, ResourcesSpec()))


def work(*tasks: Task, mode: Mode = Mode.ASYNC) -> Workload:
    found = workload(a_job("Qwen3-1.7B", mode=mode), MODEL)
    return replace(found, tasks=tasks) if tasks else found


def whole(*gpus: int) -> tuple[PipelineStage, ...]:
    return (PipelineStage(gpus, LAYERS),)


def apart(training: tuple[PipelineStage, ...], generation: tuple[PipelineStage, ...]) -> Layout:
    return Layout(
        (
            (TaskLayout(Task.ACTOR_TRAINING, (training,), REPLICATED),),
            (TaskLayout(Task.ACTOR_GENERATION, (generation,)),),
        )
    )


@pytest.mark.parametrize(
    ("layout", "fault"),
    [
        pytest.param(apart(whole(0), whole(0)), "share GPUs", id="two groups on one GPU"),
        pytest.param(apart(whole(3, 4), whole(0)), "not on one machine", id="tp over machines"),
        pytest.param(
            apart((PipelineStage((1,), 3),), whole(0)),
            "has not all 28 layers",
            id="layers are missing",
        ),
        pytest.param(
            apart(whole(1), (PipelineStage((2,), 14), PipelineStage((8,), 14))),
            "spans several sites",
            id="one engine on two kinds",
        ),
        pytest.param(
            apart((PipelineStage((1,), 14), PipelineStage((1,), 14)), whole(0)),
            "holds two stages",
            id="two stages on one GPU",
        ),
    ],
)
def test_broken_rules_are_named(layout: Layout, fault: str) -> None:
    devices = devices_of(a_fleet(a100_80=8, l4=4, gpus_per_machine=4))
    assert any(fault in each for each in faults(layout, devices, num_layers=LAYERS))


def test_layout_within_the_rules_has_no_fault() -> None:
    devices = devices_of(a_fleet(a100_80=8, l4=4, gpus_per_machine=4))
    across = (PipelineStage((3,), 20), PipelineStage((8,), 8))
    assert faults(apart(across, whole(0, 1)), devices, num_layers=LAYERS) == ()


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.slow
def test_choice_of_phase_1_costs_the_same_as_a_layout(mode: Mode) -> None:
    fleet = a_fleet(a100=24, l40s=24, l4=16)
    job = a_job("Qwen3-8B", mode=mode)
    space = space_of(fleet, job, runnable_only=False)
    found = Searcher(should_stop=lambda: False, seed=1).best(space, Fastest())
    assert found
    devices = Devices(snapshot=fleet, sites=space.sites)
    layout = layout_of(found.choice, devices)
    priced = Evaluator(space.work, devices).evaluate(layout)
    assert isinstance(priced, Evaluation)
    assert faults(layout, devices, num_layers=space.work.architecture.num_layers) == ()
    assert priced.step_seconds == pytest.approx(found.choice.step_seconds, rel=1e-3)
    assert priced.gpu_dollars_per_hour == pytest.approx(found.choice.dollars_per_hour)


def test_tasks_that_share_gpus_take_turns_and_others_do_not() -> None:
    devices = devices_of(a_fleet(h100=2, gpus_per_machine=2))
    evaluator = Evaluator(work(), devices)
    training = TaskLayout(Task.ACTOR_TRAINING, (whole(0),), REPLICATED)
    separate = evaluator.evaluate(apart(whole(0), whole(1)))
    shared = evaluator.evaluate(
        Layout(((training, TaskLayout(Task.ACTOR_GENERATION, (whole(0),))),))
    )
    assert isinstance(separate, Evaluation)
    assert isinstance(shared, Evaluation)
    both_seconds = sum(cost.seconds for cost in shared.tasks.values())
    assert shared.step_seconds == pytest.approx(both_seconds)
    assert separate.step_seconds == max(cost.seconds for cost in separate.tasks.values())


def test_gpu_that_is_too_small_is_named() -> None:
    devices = devices_of(a_fleet(l4=2, gpus_per_machine=2))
    found = Evaluator(work(), devices).evaluate(apart(whole(0), whole(1)))
    assert isinstance(found, Misfit)
    assert "l4-0" in found.reason
    assert found.excess > 1


def test_faster_replica_gets_more_of_the_batch() -> None:
    devices = devices_of(a_fleet(a100_80=1, l40s=1, h100=1, gpus_per_machine=1))
    layout = Layout(
        (
            (TaskLayout(Task.ACTOR_TRAINING, (whole(0), whole(2)), REPLICATED),),
            (TaskLayout(Task.ACTOR_GENERATION, (whole(1),)),),
        )
    )
    found = Evaluator(work(), devices).evaluate(layout)
    assert isinstance(found, Evaluation)
    a100, other = found.tasks[Task.ACTOR_TRAINING].shares
    assert a100 + other == pytest.approx(1)
    assert a100 != pytest.approx(other)


def test_gradients_across_regions_use_the_slowest_link_of_the_ring() -> None:
    links = (
        Link(source="east", target="west", bytes_per_second=1e9, latency_seconds=0.01),
        Link(source="east", target="far", bytes_per_second=1e8, latency_seconds=0.1),
        Link(source="far", target="west", bytes_per_second=2e8, latency_seconds=0.1),
    )
    fleet = both(*(a_fleet(l4=1, region=region) for region in ("east", "far", "west")), links=links)
    devices = devices_of(fleet)
    assert devices.ring([0, 2]).bytes_per_second == 1e9
    assert devices.ring([0, 1, 2]).bytes_per_second == 1e8


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_evolution_keeps_the_rules_and_fits_its_plan(seed: int) -> None:
    fleet = both(
        a_fleet(a100_80=4, l40s=6, gpus_per_machine=4), a_fleet(l4=4, a100=2, region="far")
    )
    devices = devices_of(fleet)
    evaluator = Evaluator(work(*PPO), devices)
    decoder, rng = Decoder(evaluator), np.random.default_rng(seed)
    starts, variation = Starts(decoder.fitting, rng), Variation(decoder, rng)
    every = list(groupings(PPO))
    priced = 0
    for _ in range(40):
        genome = starts.genome(every[int(rng.integers(len(every)))])
        for _ in range(3):
            genome = variation.child(genome)
        layout = decoder.decode(genome)
        found = layout and evaluator.evaluate(layout)
        if layout is None or not isinstance(found, Evaluation):
            continue
        priced += 1
        assert faults(layout, devices, num_layers=LAYERS) == ()
        groups = replica_groups(found, evaluator)
        names = {
            share.machine for group in groups for each in group.replicas for share in each.shares
        }
        assert names <= {machine.name for machine in fleet.machines}
        for gpu, use in evaluator.memory(found).items():
            assert use.total_bytes <= devices.kind(devices.gpu_machines[gpu]).memory_bytes + 8
        for group in groups:
            sizes = {share.num_gpus for each in group.replicas for share in each.shares}
            assert len(sizes) == 1
    assert priced


def test_layout_survives_the_way_through_a_genome() -> None:
    fleet = a_fleet(a100_80=8, l40s=8, gpus_per_machine=8)
    devices = devices_of(fleet)
    evaluator = Evaluator(work(), devices)
    decoder = Decoder(evaluator)
    layout = decoder.decode(
        Starts(decoder.fitting, np.random.default_rng(1)).genome(
            ((Task.ACTOR_GENERATION,), (Task.ACTOR_TRAINING,)), spread=0.0
        )
    )
    assert layout
    again = decoder.decode(genome_of(layout, devices, tasks=work().tasks))
    assert again
    first, second = evaluator.evaluate(layout), evaluator.evaluate(again)
    assert isinstance(first, Evaluation)
    assert isinstance(second, Evaluation)
    assert second.step_seconds == pytest.approx(first.step_seconds, rel=0.05)
