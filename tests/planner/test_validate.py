"""Manual plans that do not fit a job or a fleet, refused by field, limit and value."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hetrl_core.job.algorithm import AlgorithmType
from hetrl_core.job.spec import JobSpec, PoolSpec, ResourcesSpec, RolloutSpec
from hetrl_core.plan.plan import Parallelism, Plan, ReplicaGroup, Share
from hetrl_core.task import Task
from hetrl_planner.plan_job import plan
from hetrl_planner.replan.validate import misfits
from tests.builders import ARCHITECTURES, a_fleet, a_job

FLEET = a_fleet(a100_80=8, l4=8)
JOB = a_job()

Edit = Callable[[Plan], Plan]


@pytest.fixture(scope="module")
def found() -> Plan:
    answer = plan(FLEET, JOB, runnable_only=True, evaluations=60)
    assert isinstance(answer, Plan)
    return answer


def edited(task: Task, change: Callable[[ReplicaGroup], ReplicaGroup]) -> Edit:
    """Change the groups that do a task."""
    return lambda old: replace(
        old, groups=tuple(change(each) if task in each.tasks else each for each in old.groups)
    )


def moved_to(machine: str, group: ReplicaGroup) -> ReplicaGroup:
    def on(share: Share) -> Share:
        return replace(share, machine=machine)

    replicas = (replace(each, shares=tuple(map(on, each.shares))) for each in group.replicas)
    return replace(group, replicas=tuple(replicas))


@pytest.mark.slow
def test_planners_own_plans_fit(found: Plan) -> None:
    assert misfits(found, FLEET, JOB) == ()


GENERATION, TRAINING = Task.ACTOR_GENERATION, Task.ACTOR_TRAINING


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        pytest.param(
            edited(TRAINING, lambda group: moved_to("gone", group)),
            "machine gone is not one that the job may use",
            id="a-machine-that-is-not-there",
        ),
        pytest.param(
            edited(TRAINING, lambda group: moved_to("l4-0", group)),
            ": gpuKind is A100-80GB, machine l4-0 has L4",
            id="another-kind",
        ),
        pytest.param(
            edited(TRAINING, lambda group: replace(group, region="mars")),
            ": region is mars, machine a100-80gb-0 has local",
            id="another-region",
        ),
        pytest.param(
            edited(GENERATION, lambda group: replace(group, replicas=group.replicas * 9)),
            "spec.groups: GPUs of ",
            id="more-gpus-than-a-machine-has",
        ),
        pytest.param(
            edited(
                TRAINING,
                lambda group: replace(
                    group, parallelism=replace(group.parallelism, stage_layers=(3,))
                ),
            ),
            ".stageLayers must sum to the model's 28 layers, got 3",
            id="another-models-layers",
        ),
        pytest.param(
            edited(
                GENERATION,
                lambda group: replace(group, parallelism=Parallelism(tensor=4, stage_layers=(28,))),
            ),
            "a replica must take tensor x stages = 4 GPUs, got 1",
            id="too-few-gpus-for-the-split",
        ),
        pytest.param(
            edited(TRAINING, lambda group: replace(group, training_mode=None)),
            ".training is required of a group that trains",
            id="no-way-to-train",
        ),
        pytest.param(
            edited(GENERATION, lambda group: replace(group, concurrency=0)),
            ".concurrency must be >= 1 where a group generates, got 0",
            id="nothing-at-once",
        ),
        pytest.param(
            edited(GENERATION, lambda group: replace(group, concurrency=100_000)),
            " has memory for, got 100000",
            id="more-at-once-than-memory-holds",
        ),
        pytest.param(
            edited(
                GENERATION,
                lambda group: replace(
                    group,
                    replicas=tuple(
                        replace(each, work_share=each.work_share / 2) for each in group.replicas
                    ),
                ),
            ),
            "the workShare of ActorGeneration must sum to 1, got 0.5",
            id="half-of-the-work",
        ),
        pytest.param(
            lambda old: replace(old, groups=old.groups_with(TRAINING)),
            "must be >= 1 (spec.rollout)",
            id="nothing-generates",
        ),
        pytest.param(
            edited(TRAINING, lambda group: replace(group, replicas=group.replicas * 300)),
            "training replicas of the plan must be <= the sequences of a minibatch (",
            id="more-trainers-than-sequences",
        ),
    ],
)
def test_field_that_does_not_fit_is_named(found: Plan, edit: Edit, said: str) -> None:
    assert any(said in each for each in misfits(edit(found), FLEET, JOB)), misfits(
        edit(found), FLEET, JOB
    )


@pytest.mark.parametrize(
    ("job", "said"),
    [
        pytest.param(
            replace(JOB, resources=ResourcesSpec(max_gpus=1)),
            "GPUs of the plan must be <= spec.resources.maxGPUs (1), got ",
            id="gpus",
        ),
        pytest.param(
            replace(JOB, resources=ResourcesSpec(budget_dollars_per_hour=0.5)),
            "must be <= spec.resources.budgetPerHour (0.5), got ",
            id="dollars",
        ),
        pytest.param(
            replace(JOB, rollout=RolloutSpec(replicas=1)),
            "rollout replicas of the plan must be <= 1 (spec.rollout), got ",
            id="rollouts",
        ),
        pytest.param(
            replace(JOB, resources=ResourcesSpec(pools=(PoolSpec(name="none"),))),
            "is not one that the job may use",
            id="pools",
        ),
        pytest.param(
            replace(JOB, algorithm=replace(JOB.algorithm, type=AlgorithmType.PPO, group_size=1)),
            "algorithm PPO: the plan is another algorithm's",
            id="algorithm",
        ),
    ],
)
def test_limit_of_the_job_is_named(found: Plan, job: JobSpec, said: str) -> None:
    assert any(said in each for each in misfits(found, FLEET, job)), misfits(found, FLEET, job)


def test_gpu_that_is_too_small_is_named(found: Plan) -> None:
    wider = replace(ARCHITECTURES["Qwen3-1.7B"], hidden_size=16 * 2048, ffn_size=16 * 6144)
    job = replace(JOB, model=replace(JOB.model, architecture=wider))

    (said,) = misfits(found, FLEET, job)

    assert said.startswith("memory: a GPU of ")
    assert said.endswith(" times its memory is needed")
