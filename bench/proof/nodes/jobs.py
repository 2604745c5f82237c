"""The job of every story: the tiny example with checkpoints, and what is seen of them."""

import re
from pathlib import Path
from typing import Any

from e2e.tenant import Tenant, open_to_pods, the_example

POOLS = (
    {"name": "a100", "gpuProduct": "A100-80GB", "maxGPUs": 1},
    {"name": "l4", "gpuProduct": "L4", "maxGPUs": 2},
)
"""Three GPUs, so that a rollout is left where the trainer is not."""

_CHECKPOINT_EVERY_STEPS = 3


def a_job(tenant: Tenant, name: str, folder: Path, *, steps: int, **spec: Any) -> dict[str, Any]:
    """Return a job that keeps checkpoints in a folder of this machine."""
    folder.mkdir(parents=True)
    open_to_pods(folder, writable=True)
    tenant.claim(f"{name}-checkpoints", folder)
    training = {
        **the_example()["spec"]["training"],
        "steps": steps,
        "checkpointEverySteps": _CHECKPOINT_EVERY_STEPS,
    }
    storage = {"checkpoints": {"persistentVolumeClaim": f"{name}-checkpoints"}}
    job = the_example(training=training, storage=storage, resources={"pools": list(POOLS)}, **spec)
    job["metadata"]["name"] = name
    return job


def newest_checkpoint(folder: Path, job: str) -> int:
    """Return the step of the newest whole checkpoint; 0 where there is none."""
    found = (folder / job).glob("step-*")
    return max((int(each.name.removeprefix("step-")) for each in found), default=0)


def goes_on_at(tenant: Tenant, job: str, step: int) -> bool:
    """Tell whether the trainer said that it goes on from a checkpoint."""
    return f"/{job}/step-{step:08d}" in tenant.hetrl("logs", job, "--role=trainer", "--tail=1000")


def goes_on_with(tenant: Tenant, job: str, step: int) -> bool:
    """Tell whether the coordinator said that its trainer stands at that step, and nowhere else."""
    log = tenant.hetrl("logs", job, "--role=coordinator", "--tail=1000")
    return bool(re.search(f"role=trainer epoch=[0-9]+ version={step}\n", log))
