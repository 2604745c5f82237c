"""Capabilities of this release's runtime, checked before a plan is deployed.

The planner may describe more than that (``hetrl plan`` previews it); the operator and
``hetrl run`` check here before they start anything. ``groupings`` lists the tasks that may share
GPUs.
"""

from hetrl_core.job.algorithm import AlgorithmType
from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.job.spec import Engine, JobSpec
from hetrl_core.plan.groupings import CRITIC, grouping, named
from hetrl_core.plan.plan import Parallelism, Plan, ReplicaGroup
from hetrl_core.task import TRAINING_TASKS, Task, asked_of_workers

_ALWAYS = (Task.ACTOR_GENERATION, Task.ACTOR_TRAINING)
_TRAINED = (Task.ACTOR_TRAINING, Task.CRITIC_TRAINING)


def obstacles(plan: Plan, job: JobSpec) -> tuple[str, ...]:
    """Return every reason why the runtime cannot execute a job's plan; empty when it can."""
    found = _grouping_obstacles(plan, job)
    found += [reason for group in plan.groups for reason in _split_obstacles(group, job)]
    found += [reason for task in _TRAINED for reason in _training_obstacles(plan, task)]
    return tuple(found)


def split_obstacle(
    task: Task, parallelism: Parallelism, engine: Engine, model: ModelArchitecture | None
) -> str:
    """Return why the runtime cannot run a task's replicas split this way; empty when it can.

    ``engine`` is what generates; it matters to generation alone. A ``model`` whose dimensions
    are not known is refused nothing for them.
    """
    if task not in TRAINING_TASKS and parallelism.num_stages > 1:
        return "this release serves without pipeline stages"
    if task is Task.REWARD_INFERENCE:
        return "" if parallelism.tensor == 1 else "a reward model has one GPU per replica"
    if task is not Task.ACTOR_GENERATION:
        if model and model.num_kv_heads % parallelism.tensor:
            return (
                "tensor parallelism must divide the model's "
                f"{model.num_kv_heads} key and value heads"
            )
    elif engine is Engine.TRANSFORMERS and parallelism.tensor > 1:
        return "engine transformers generates with one GPU per replica; engine vllm splits"
    return ""


def _grouping_obstacles(plan: Plan, job: JobSpec) -> list[str]:
    return [*_split_apart(plan), *_inconsistent_tasks(plan), *_unlike_job(plan, job)]


def _split_apart(plan: Plan) -> list[str]:
    found = [
        f"{named(group.tasks)} apart from {named(CRITIC.difference(group.tasks))}: the same "
        "processes do both"
        for group in plan.groups
        if len(CRITIC.intersection(group.tasks)) == 1
    ]
    if any(
        share.first_gpu is not None
        for group in plan.groups
        for replica in group.replicas
        for share in replica.shares
    ):
        found.append("tasks that share GPUs are split differently: this release splits them alike")
    return found


def _inconsistent_tasks(plan: Plan) -> list[str]:
    groups = grouping(group.tasks for group in plan.groups)
    missing = [f"nothing does {task}" for task in _ALWAYS if not plan.groups_with(task)]
    return missing + [
        f"{task} is done together with other tasks here and without them there: this release "
        "does it in one way"
        for task in Task
        if sum(task in each for each in groups) > 1
    ]


def _unlike_job(plan: Plan, job: JobSpec) -> list[str]:
    found = []
    if (job.algorithm.type is AlgorithmType.PPO) is not bool(
        plan.groups_with(Task.CRITIC_TRAINING)
    ):
        found.append(f"algorithm {job.algorithm.type}: the plan is another algorithm's")
    if bool(job.data.model) is not bool(plan.groups_with(Task.REWARD_INFERENCE)):
        has = "has a" if job.data.model else "has no"
        found.append(f"data.reward {job.data.reward}: the job {has} reward model, unlike the plan")
    return found


def _split_obstacles(group: ReplicaGroup, job: JobSpec) -> list[str]:
    # A trainer's other models are cut as the one that it trains.
    trained = [each for each in _TRAINED if each in group.tasks]
    served = {Task.ACTOR_GENERATION, *asked_of_workers(group.tasks)}
    asked = (*trained[:1], *(each for each in group.tasks if each in served))
    reasons = {
        task: split_obstacle(task, group.parallelism, job.engine, job.model.architecture)
        for task in asked
    }
    return [f"{task} at {group.parallelism}: {why}" for task, why in reasons.items() if why]


def _training_obstacles(plan: Plan, task: Task) -> list[str]:
    groups = plan.groups_with(task)
    splits = {(group.parallelism, group.training_mode) for group in groups}
    if len(splits) < 2:  # noqa: PLR2004 - alike
        return []
    return [f"{task} in {len(splits)} ways: replicas that sum their gradients must be split alike"]
