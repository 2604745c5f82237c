"""The restart digest of a pod: a running pod is replaced if its template's digest changes.

It covers the fields that users write and the pod's own place in the plan, not the rendered
manifest: a new release of the operator, or one more worker, must not restart anything. Fields with
default values are left out, so that a new field of a release changes no digest.
"""

import json
from hashlib import sha256
from typing import Any

from pydantic import BaseModel

from hetrl_api.job.training import Storage
from hetrl_core.plan.pod_sets import PodSet, Rank, inference_tasks
from hetrl_core.plan.training_split import TrainingSplit, critic_split, training_split
from hetrl_core.task import Role
from hetrl_operator.render.deployment import Deployment


def restart_hash(deployment: Deployment, pods: PodSet) -> str:
    """Return the restart digest of a pod set."""
    parts = {**_runtime(deployment, pods), **_plan(deployment, pods)}
    if pods.role in {Role.COORDINATOR, Role.TRAINER}:
        written = deployment.parsed.written
        parts["training"] = _written(written.training)
        parts["storage"] = _storage(written.storage)
    # Who scores is part of every contract, and with inference workers certificates are others. A
    # job without any must not restart when a release begins to know of them.
    if asked := inference_tasks(deployment.sets):
        parts["inference"] = asked
    text = json.dumps(parts, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:16]


def _storage(storage: Storage) -> dict[str, Any]:
    # A user who removes the field once the job goes on would otherwise lose steps.
    checkpoints = storage.checkpoints.model_copy(update={"allow_changes": ()})
    return _written(storage.model_copy(update={"checkpoints": checkpoints}))


def image_role(pods: PodSet) -> Role:
    """Return whose image a pod runs: a rollout's has all that the others need, and its engine."""
    return Role.ROLLOUT if pods.generates else pods.role


def _runtime(deployment: Deployment, pods: PodSet) -> dict[str, Any]:
    """Return what the role's container is made of; other roles' images do not matter to it."""
    written = deployment.parsed.written
    runtime = _written(written.runtime)
    template = runtime.pop("podTemplate", {})
    return {
        "runtime": {**runtime, "images": written.runtime.images.of(image_role(pods))},
        "resources": template.pop("resources", {}).get(pods.role),
        "template": template,
        "priority": written.scheduling.priority_class_name,
    }


def _plan(deployment: Deployment, pods: PodSet) -> dict[str, Any]:
    if pods.role is Role.COORDINATOR:
        return {}
    if pods.role is Role.TRAINER:
        return _trainers(deployment)
    # The rank table has a row for each GPU of every ordinal; one pod's rows are its shape.
    first = [each for each in pods.ranks if each.ordinal == 0]
    shape = [(each.local_gpu, each.task, each.stage, each.tensor_rank) for each in first]
    cache = {"cache": pods.kv_cache_bytes} if pods.kv_cache_bytes else {}
    return {"shape": shape, "concurrency": pods.concurrency, **cache}


def _trainers(deployment: Deployment) -> dict[str, Any]:
    trainers = [each for each in deployment.sets if each.role is Role.TRAINER]
    found: dict[str, Any] = {
        "trainers": [(each.name, [_row(rank) for rank in each.ranks]) for each in trainers],
        "split": _split(training_split(deployment.plan.plan)),
    }
    # What an earlier release started has neither, and must not restart for this one's knowing them.
    if any(each.generates for each in trainers):
        found["generation"] = [(each.concurrency, each.kv_cache_bytes) for each in trainers]
    if critic := critic_split(deployment.plan.plan):
        found["critic split"] = _split(critic)
    return found


def _row(rank: Rank) -> tuple[Any, ...]:
    return (rank.ordinal, rank.local_gpu, rank.task, rank.replica, rank.stage, rank.tensor_rank)


def _split(split: TrainingSplit) -> dict[str, Any]:
    """Return a split by names that no renaming of a class changes: they are digested."""
    return {
        "shares": split.shares,
        "stage_layers": split.stage_layers,
        "tensor": split.tensor,
        "mode": {"recompute": split.mode.recompute, "sharding": split.mode.sharding},
    }


def _written(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
