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
    found = [reason for group in plan.groups for reason in _group_obstacles(group, job.engine)]
    found += _training_obstacles(plan, job.model.architecture)
    if job.algorithm.type is AlgorithmType.PPO:
        found.append("algorithm PPO: this release trains without a critic, with GRPO only")
    return tuple(found)


def split_obstacle(task: Task, parallelism: Parallelism, engine: Engine) -> str:
    """Return why the runtime cannot run a task's replicas split this way; empty when it can.

    ``engine`` is what generates; it matters to generation alone.
    """
    if task is Task.ACTOR_TRAINING:
        return ""
    if parallelism.num_stages > 1:
        return "this release serves without pipeline stages"
    if task is Task.ACTOR_GENERATION and engine is Engine.TRANSFORMERS and parallelism.tensor > 1:
        return "engine transformers generates with one GPU per replica; engine vllm splits"
    return ""


def _training_obstacles(plan: Plan, architecture: ModelArchitecture | None) -> list[str]:
    found = []
    groups = plan.groups_with(Task.ACTOR_TRAINING)
    if len(splits := {(group.parallelism, group.training_mode) for group in groups}) > 1:
        found.append(
            f"{Task.ACTOR_TRAINING} in {len(splits)} ways: replicas that sum their gradients must "
            "be split alike"
        )
    if architecture:
        heads = architecture.num_kv_heads
        found += [
            f"{Task.ACTOR_TRAINING} at {group.parallelism}: tensor parallelism must divide the "
            f"model's {heads} key and value heads"
            for group in groups
            if heads % group.parallelism.tensor
        ]
    return found


def _group_obstacles(group: ReplicaGroup, engine: Engine) -> list[str]:
    found = []
    if len(group.tasks) > 1:
        together = " and ".join(group.tasks)
        found.append(f"{together} on shared GPUs: this release runs one task per GPU")
    reasons = {task: split_obstacle(task, group.parallelism, engine) for task in group.tasks}
    found += [f"{task} at {group.parallelism}: {why}" for task, why in reasons.items() if why]
    return found
