"""Jobs of a crowd: one pool each, at most four GPUs, and a sweep of learning rates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle, islice, product
from typing import Any

from e2e.faults.life import a_job

PRODUCTS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S", "NVIDIA-L4")
SIZES = (2, 3, 4)
"""GPUs that a job may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Jobs that are submitted together."""

    size: int
    name: str = "job"
    differs: bool = False
    """Whether no two jobs ask the planner the same; else they differ in learning rates only."""

    def jobs(self) -> list[dict[str, Any]]:
        """Return the manifests."""
        shapes = islice(cycle(product(PRODUCTS, SIZES)), self.size)
        return [self._job(number, *shape) for number, shape in enumerate(shapes)]

    def _job(self, number: int, gpu_product: str, most_gpus: int) -> dict[str, Any]:
        job = a_job(f"{self.name}-{number}", {"name": "pool", "gpuProduct": gpu_product})
        job["spec"]["resources"]["maxGPUs"] = most_gpus
        # For pods of three thousand jobs a cluster's own controllers may take longer than 900 s.
        job["spec"]["startupDeadlineSeconds"] = 3600
        job["spec"]["training"]["learningRate"] = (1 + number) * 1e-7
        if self.differs:
            job["spec"]["data"]["maxResponseTokens"] = 8 + number
        return job
