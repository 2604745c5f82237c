"""Remembered memory equals the cost model's, to the byte."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.plan.plan import Recompute, Sharding, TrainingMode
from hetrl_planner.cost import memory
from hetrl_planner.cost.memory import Footprint
from hetrl_planner.hetrl.genome.assigned_gpus import Owned, Room
from hetrl_planner.layout.fit.stage_memory import Ends, StageMemory
from hetrl_planner.problem.workload import Workload, workload
from tests.builders import ARCHITECTURES, a_job

MODEL = "Qwen3-8B"
MODE = TrainingMode(recompute=Recompute.FULL, sharding=Sharding.OPTIMIZER)
ALL_ENDS = [(True, True), (True, False), (False, False), (False, True)]


def work() -> Workload:
    return workload(a_job(MODEL), ARCHITECTURES[MODEL])


def needed(footprint: Footprint) -> float:
    return footprint.resident_bytes + footprint.working_bytes


@pytest.mark.parametrize("ends", ALL_ENDS)
@pytest.mark.parametrize("layers", [1, 2, 17, 36])
@pytest.mark.parametrize("is_generation", [True, False], ids=["generation", "scoring"])
def test_gpu_serves_as_many_layers_as_fit_exactly(
    ends: Ends, layers: int, is_generation: bool
) -> None:
    stages = StageMemory(work())
    shard = stages.shard(2, layers, ends)
    longest = work().max_sample_tokens / work().sample_tokens
    free = needed(
        memory.generation_footprint(shard, work(), concurrency=longest)
        if is_generation
        else memory.inference_footprint(shard, work())
    )
    for free_bytes, expected in ((free, layers), (free - 1, layers - 1)):
        found = stages.most_serving_layers(
            2, ends, is_generation=is_generation, free_bytes=free_bytes
        )
        assert found == expected


@pytest.mark.parametrize("ends", ALL_ENDS)
@pytest.mark.parametrize("layers", [1, 2, 17, 36])
def test_gpu_trains_as_many_layers_as_fit_exactly(ends: Ends, layers: int) -> None:
    stages = StageMemory(work())
    shard = stages.shard(2, layers, ends)
    free = needed(
        memory.training_footprint(shard, work(), mode=MODE, num_replicas=4, passes_in_flight=3)
    )
    for free_bytes, expected in ((free, layers), (free - 1, layers - 1)):
        found = stages.most_training_layers(
            2, ends, mode=MODE, num_replicas=4, passes_in_flight=3, free_bytes=free_bytes
        )
        assert found == expected


@given(
    counts=st.lists(st.integers(1, 8), min_size=1, max_size=5),
    size=st.integers(1, 4),
    taken=st.integers(0, 20),
)
def test_blocks_taken_and_left_make_up_all_gpus(counts: list[int], size: int, taken: int) -> None:
    owned = Owned(tuple((number, 10 * number, count) for number, count in enumerate(counts)))
    blocks = owned.blocks(size)
    assert len(blocks) == owned.num_blocks(size)
    gpus = [gpu for block in blocks[:taken] for gpu in block]
    gpus += [
        gpu
        for _, first, count in owned.without(min(taken, len(blocks)), size)
        for gpu in range(first, first + count)
    ]
    assert sorted(gpus) == [gpu for block in owned.blocks(1) for gpu in block]


def test_block_leaves_what_the_fullest_of_its_gpus_must_leave() -> None:
    room = Room(kept_bytes={1: 3e9}, working_bytes={2: 5e9}, later_bytes=1e9, own_bytes=4e9)
    assert room.most_reserved((0, 1, 2)) == room.reserved(1) > room.reserved(2) > room.reserved(0)
    empty = replace(room, kept_bytes={}, working_bytes={})
    assert empty.most_reserved((0, 1, 2)) == room.reserved(0)
