from dataclasses import replace

import pytest

from hetrl_core.job.spec import Strategy
from hetrl_core.plan.plan import MemoryUse, Plan, Replica, Share
from hetrl_core.plan.pod_sets import (
    COORDINATOR,
    PodSet,
    Rank,
    inference_tasks,
    pod_sets,
    slug,
    weights_cross_regions,
)
from hetrl_core.task import Role, Task
from hetrl_planner.plan_job import plan
from tests.builders import a_fleet, a_job
from tests.core.test_plan import PREDICTION, a_group


def test_coordinator_comes_first_and_takes_no_gpu() -> None:
    (coordinator, *_) = pod_sets(
        Plan(
            strategy=Strategy.AUTO,
            groups=(a_group(Task.ACTOR_TRAINING, "a"),),
            prediction=PREDICTION,
        )
    )
    assert (coordinator.name, coordinator.role) == (COORDINATOR, Role.COORDINATOR)
    assert (coordinator.num_pods, coordinator.gpus_per_pod) == (1, 0)


def test_replicas_are_numbered_on_through_all_sets_of_a_task() -> None:
    groups = (
        a_group(Task.ACTOR_TRAINING, "a", "b"),
        a_group(Task.ACTOR_TRAINING, "c"),
        a_group(Task.ACTOR_GENERATION, "d", "e"),
    )
    sets = pod_sets(Plan(strategy=Strategy.AUTO, groups=groups, prediction=PREDICTION))
    assert [pods.name for pods in sets[1:]] == ["trainer-l4-0", "trainer-l4-1", "rollout-l4-0"]
    assert [[rank.replica for rank in pods.ranks] for pods in sets[1:]] == [[0, 1], [2], [0, 1]]


def test_reference_on_own_gpus_is_an_inference_pod_set() -> None:
    trains = replace(
        a_group(Task.ACTOR_TRAINING, "a"), tasks=(Task.ACTOR_TRAINING, Task.REFERENCE_INFERENCE)
    )
    together = (trains, a_group(Task.ACTOR_GENERATION, "b"))
    apart = (
        a_group(Task.ACTOR_TRAINING, "a"),
        a_group(Task.ACTOR_GENERATION, "b"),
        a_group(Task.REFERENCE_INFERENCE, "c", "d"),
    )
    sets = {
        groups: pod_sets(Plan(strategy=Strategy.AUTO, groups=groups, prediction=PREDICTION))
        for groups in (together, apart)
    }

    last = sets[apart][-1]
    assert (last.name, last.role, last.num_pods) == ("inference-l4-0", Role.INFERENCE, 2)
    assert inference_tasks(sets[apart]) == (Task.REFERENCE_INFERENCE,)
    assert inference_tasks(sets[together]) == ()


def test_critic_on_own_gpus_is_a_trainer_with_own_replicas() -> None:
    critic = replace(
        a_group(Task.CRITIC_TRAINING, "c", "d"),
        tasks=(Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING),
    )
    groups = (a_group(Task.ACTOR_TRAINING, "a"), a_group(Task.ACTOR_GENERATION, "b"), critic)
    sets = pod_sets(Plan(strategy=Strategy.AUTO, groups=groups, prediction=PREDICTION))

    policy, last = sets[1], sets[-1]
    assert (policy.role, last.role) == (Role.TRAINER, Role.TRAINER)
    assert policy.tasks == {Task.ACTOR_TRAINING}
    assert last.tasks == {Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING}
    assert [(rank.ordinal, rank.replica) for rank in last.ranks] == [
        (0, 0),
        (0, 0),
        (1, 1),
        (1, 1),
    ]
    assert inference_tasks(sets) == ()


def test_ranks_count_stages_first_and_tensor_ranks_inside_them() -> None:
    group = a_group(Task.ACTOR_GENERATION, "a", tensor=2, stages=2)
    (_, pods) = pod_sets(Plan(strategy=Strategy.AUTO, groups=(group,), prediction=PREDICTION))
    found = [(rank.local_gpu, rank.stage, rank.tensor_rank) for rank in pods.ranks]
    assert found == [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]


def test_replica_over_two_kinds_is_a_pod_set_of_each() -> None:
    group = replace(
        a_group(Task.ACTOR_TRAINING, "a", "b", tensor=2, stages=2),
        stage_sites=(("A100", "us"), ("L4", "eu")),
        replicas=tuple(
            Replica(
                shares=(
                    Share(machine=f"a{each}", num_gpus=2),
                    Share(machine=f"l{each}", num_gpus=2),
                )
            )
            for each in range(2)
        ),
    )
    (_, first, last) = pod_sets(
        Plan(strategy=Strategy.AUTO, groups=(group,), prediction=PREDICTION)
    )

    assert (first.name, first.region, first.machines) == ("trainer-a100-0", "us", ("a0", "a1"))
    assert (last.name, last.region, last.machines) == ("trainer-l4-0", "eu", ("l0", "l1"))
    for stage, pods in enumerate((first, last)):
        places = [(rank.ordinal, rank.local_gpu, rank.replica, rank.stage) for rank in pods.ranks]
        assert places == [(0, 0, 0, stage), (0, 1, 0, stage), (1, 0, 1, stage), (1, 1, 1, stage)]


@pytest.mark.slow
def test_gpus_of_a_generated_plan_have_one_rank_each() -> None:
    made = plan(a_fleet(a100=24, l40s=24, l4=16), a_job("Qwen3-14B"), evaluations=0)
    assert isinstance(made, Plan)
    sets = pod_sets(made)
    places = [(pods.name, rank.ordinal, rank.local_gpu) for pods in sets for rank in pods.ranks]
    assert len(set(places)) == len(places) == made.num_gpus
    for pods in sets[1:]:
        assert {rank.ordinal for rank in pods.ranks} == set(range(pods.num_pods))
        assert all(rank.local_gpu < pods.gpus_per_pod for rank in pods.ranks)


def test_names_become_dns_labels() -> None:
    assert slug("A100-80GB") == "a100-80gb"
    assert slug(" eu_West 1. ") == "eu-west-1"


def test_weights_cross_regions_only_away_from_the_first_trainer() -> None:
    sets = [
        PodSet(
            name=f"{role}-{region}",
            role=role,
            region=region,
            machines=("",),
            ranks=tuple(
                Rank(ordinal=0, local_gpu=0, task=task, replica=0, stage=0, tensor_rank=0)
                for task in tasks
            ),
        )
        for role, region, *tasks in (
            (Role.COORDINATOR, ""),
            (Role.TRAINER, "as", Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING),
            (Role.TRAINER, "us", Task.ACTOR_TRAINING),
            (Role.TRAINER, "eu", Task.ACTOR_TRAINING),
            (Role.ROLLOUT, "us", Task.ACTOR_GENERATION),
            (Role.ROLLOUT, "eu", Task.ACTOR_GENERATION),
        )
    ]

    assert [each.name for each in sets if weights_cross_regions(each, sets)] == ["rollout-eu"]


def test_pod_has_a_program_for_each_kind_of_work() -> None:
    shared = {
        (Task.ACTOR_GENERATION, Task.ACTOR_TRAINING): (Role.TRAINER, Role.ROLLOUT),
        # What trains says itself what the reference thinks; rewards are due before.
        (Task.REFERENCE_INFERENCE, Task.ACTOR_TRAINING): (Role.TRAINER,),
        (Task.REWARD_INFERENCE, Task.ACTOR_TRAINING): (Role.TRAINER, Role.INFERENCE),
        (Task.ACTOR_GENERATION, Task.REFERENCE_INFERENCE): (Role.ROLLOUT, Role.INFERENCE),
        tuple(Task): (Role.TRAINER, Role.ROLLOUT, Role.INFERENCE),
    }
    for tasks, programs in shared.items():
        group = replace(a_group(Task.ACTOR_TRAINING, "a"), tasks=tasks)
        sets = pod_sets(Plan(strategy=Strategy.AUTO, groups=(group,), prediction=PREDICTION))
        (coordinator, pods) = sets
        assert coordinator.programs == (Role.COORDINATOR,)
        assert (pods.role, pods.programs) == (programs[0], programs)
        assert pods.generates is (Task.ACTOR_GENERATION in tasks)
        reference = {Task.REFERENCE_INFERENCE} if Role.TRAINER not in programs else set()
        assert set(inference_tasks(sets)) == set(tasks) & {Task.REWARD_INFERENCE, *reference}


def test_pods_that_share_gpus_get_a_kv_cache_limit() -> None:
    alone = replace(
        a_group(Task.ACTOR_GENERATION, "a"), memory=MemoryUse(weights_bytes=1, kv_cache_bytes=5)
    )
    shared = replace(alone, tasks=(Task.ACTOR_GENERATION, Task.ACTOR_TRAINING))
    for group, wanted in ((alone, 0), (shared, 5)):
        plan = Plan(strategy=Strategy.AUTO, groups=(group,), prediction=PREDICTION)
        assert pod_sets(plan)[1].kv_cache_bytes == wanted
