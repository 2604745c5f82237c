"""What this release's runtime can execute, so that nobody deploys a plan that it cannot.

The planner may describe more than that (``hetrl plan`` previews it); the operator and
``hetrl run`` ask here before they start anything.
"""

from hetrl_core.job import AlgorithmSpec, AlgorithmType
from hetrl_core.plan import Parallelism, Plan, ReplicaGroup
from hetrl_core.task import Task


def obstacles(plan: Plan, algorithm: AlgorithmSpec) -> tuple[str, ...]:
    """Return every reason why the runtime cannot execute a plan; empty when it can."""
    found = [reason for group in plan.groups for reason in _group_obstacles(group)]
    if algorithm.type is AlgorithmType.PPO:
        found.append("algorithm PPO: this release trains without a critic, with GRPO only")
    return tuple(found)


def can_split(task: Task, parallelism: Parallelism) -> bool:
    """Tell whether the runtime can run a task's replicas split this way."""
    if task is Task.ACTOR_TRAINING:
        return parallelism.num_gpus == 1
    return parallelism.num_stages == 1


def _group_obstacles(group: ReplicaGroup) -> list[str]:
    found = []
    barred = {task for task in group.tasks if not can_split(task, group.parallelism)}
    if Task.ACTOR_TRAINING in barred:
        found.append(
            f"actor training at {group.parallelism}: this release trains data-parallel, "
            "with one GPU per replica"
        )
    if len(group.tasks) > 1:
        together = " and ".join(group.tasks)
        found.append(f"{together} on shared GPUs: this release runs one task per GPU")
    if Task.ACTOR_GENERATION in barred:
        found.append(
            f"generation at {group.parallelism}: this release serves without pipeline stages"
        )
    return found
