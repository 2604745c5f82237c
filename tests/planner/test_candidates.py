from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.job.spec import ResourcesSpec
from hetrl_core.task import Task
from hetrl_planner.layout.fit.splits import replica_counts, splits
from hetrl_planner.phase1.candidates import rollout_candidates, training_candidates
from hetrl_planner.problem.sites import Site, sites
from hetrl_planner.problem.workload import Workload, workload
from tests.builders import ARCHITECTURES, a_fleet, a_job

FLEET = a_fleet(a100=24, l4=8)


def a_site(kind: str, gpus_per_machine: int = 8) -> Site:
    fleet = a_fleet(a100=24, l4=8, gpus_per_machine=gpus_per_machine)
    return next(site for site in sites(fleet, ResourcesSpec()) if site.kind.name == kind)


def work(model: str = "Qwen3-8B", batch: int = 256) -> Workload:
    return workload(a_job(model, global_batch_size=batch), ARCHITECTURES[model])


@pytest.mark.parametrize("task", [Task.ACTOR_GENERATION, Task.ACTOR_TRAINING])
@pytest.mark.parametrize("gpus_per_machine", [1, 2, 6, 8])
def test_tensor_parallelism_stays_inside_a_machine(task: Task, gpus_per_machine: int) -> None:
    site = a_site("A100-40GB", gpus_per_machine)
    for split in splits(site, work(), task, runnable_only=False):
        assert split.parallelism.tensor <= split.share_size <= gpus_per_machine
        assert split.share_size % split.parallelism.tensor == 0
        assert split.num_shares * split.share_size == split.num_gpus


def test_heads_divide_evenly_among_tensor_ranks() -> None:
    # Qwen2.5-1.5B has twelve query heads: eight ranks cannot share them.
    site = a_site("A100-40GB")
    found = splits(site, work("Qwen2.5-1.5B"), Task.ACTOR_GENERATION, runnable_only=False)
    assert {split.parallelism.tensor for split in found} == {1, 2, 4}


def test_stages_on_separate_machines_are_slower_than_on_shared_ones() -> None:
    site = a_site("A100-40GB")
    found = {
        each.split.share_size: each.time.total_seconds
        for each in training_candidates(site, work("Qwen3-14B"), FLEET, runnable_only=False)
        if str(each.split.parallelism) == "tp1·pp8" and each.num_replicas == 1
    }
    assert sorted(found, key=lambda size: -found[size]) == sorted(found)


def test_candidates_fit() -> None:
    for kind in ("A100-40GB", "L4"):
        site = a_site(kind)
        for model in ("Qwen3-1.7B", "Qwen3-14B", "Qwen3-32B"):
            for train in training_candidates(site, work(model), FLEET, runnable_only=False):
                assert train.memory.total_bytes <= site.kind.memory_bytes
                assert train.num_gpus <= site.num_gpus
            for rollout in rollout_candidates(
                site, work(model), FLEET, runnable_only=False, merge=True
            ):
                assert rollout.memory.total_bytes <= site.kind.memory_bytes
                assert rollout.max_concurrency >= 1


def test_model_too_large_for_the_site_has_no_candidate() -> None:
    assert training_candidates(a_site("L4"), work("Qwen3-32B"), FLEET, runnable_only=False) == ()


def test_candidates_with_more_gpus_shorten_the_step() -> None:
    found = training_candidates(a_site("A100-40GB"), work(), FLEET, runnable_only=False)
    for one in found:
        assert not any(
            other.num_gpus < one.num_gpus
            and other.split.share_size <= one.split.share_size
            and other.time.total_seconds <= one.time.total_seconds
            for other in found
        )


def test_runnable_candidates_generate_without_stages() -> None:
    site = a_site("A100-40GB")
    for rollout in rollout_candidates(site, work(), FLEET, runnable_only=True, merge=True):
        assert rollout.split.parallelism.num_stages == 1


def test_fixed_number_of_replicas_keeps_large_ones_in_the_choice() -> None:
    site = a_site("A100-40GB")
    sizes = [
        {
            each.split.num_gpus
            for each in rollout_candidates(site, work(), FLEET, runnable_only=True, merge=merge)
        }
        for merge in (True, False)
    ]
    assert sizes[0] < sizes[1] == {1, 2, 4, 8}


@given(batch=st.integers(1, 2000), most=st.integers(1, 500))
def test_replica_counts_leave_out_only_idle_replicas(batch: int, most: int) -> None:
    counts = replica_counts(work(batch=batch * 8), most=most)
    best = {ceil(batch * 8 / count) for count in counts}
    assert {ceil(batch * 8 / count) for count in range(1, min(most, batch * 8) + 1)} == best
    assert len(counts) <= 2 * (batch * 8) ** 0.5 + 1
