"""What this release's runtime can execute, so that nobody deploys a plan that it cannot.

The planner may describe more than that (``hetrl plan`` previews it); the operator and
``hetrl run`` ask here before they start anything.
"""

from hetrl_core.architecture import ModelArchitecture
from hetrl_core.job import AlgorithmType, Engine, JobSpec
from hetrl_core.plan import Parallelism, Plan, ReplicaGroup
from hetrl_core.task import Task


def obstacles(plan: Plan, job: JobSpec) -> tuple[str, ...]:
    """Return every reason why the runtime cannot execute a job's plan; empty when it can."""
    found = [reason for group in plan.groups for reason in _group_obstacles(group, job)]
    found += _training_obstacles(plan)
    if job.algorithm.type is AlgorithmType.PPO:
        found.append("algorithm PPO: this release trains without a critic, with GRPO only")
    return tuple(found)


def split_obstacle(
    task: Task, parallelism: Parallelism, engine: Engine, model: ModelArchitecture | None
) -> str:
    """Return why the runtime cannot run a task's replicas split this way; empty when it can.

    ``engine`` is what generates; it matters to generation alone. A ``model`` whose dimensions
    are not known is refused nothing for them.
    """
    if task is Task.ACTOR_TRAINING:
        if model and model.num_kv_heads % parallelism.tensor:
            return (
                "tensor parallelism must divide the model's "
                f"{model.num_kv_heads} key and value heads"
            )
        return ""
    if parallelism.num_stages > 1:
        return "this release serves without pipeline stages"
    if task is Task.ACTOR_GENERATION and engine is Engine.TRANSFORMERS and parallelism.tensor > 1:
        return "engine transformers generates with one GPU per replica; engine vllm splits"
    return ""


def _training_obstacles(plan: Plan) -> list[str]:
    groups = plan.groups_with(Task.ACTOR_TRAINING)
    splits = {(group.parallelism, group.training_mode) for group in groups}
    if len(splits) < 2:  # noqa: PLR2004 - alike
        return []
    return [
        f"{Task.ACTOR_TRAINING} in {len(splits)} ways: replicas that sum their gradients must "
        "be split alike"
    ]


def _group_obstacles(group: ReplicaGroup, job: JobSpec) -> list[str]:
    found = []
    if len(group.tasks) > 1:
        together = " and ".join(group.tasks)
        found.append(f"{together} on shared GPUs: this release runs one task per GPU")
    reasons = {
        task: split_obstacle(task, group.parallelism, job.engine, job.model.architecture)
        for task in group.tasks
    }
    found += [f"{task} at {group.parallelism}: {why}" for task, why in reasons.items() if why]
    return found
