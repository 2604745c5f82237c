"""Size of a patch relative to a model's weights, after a real step of training.

Rewards and tokens are random: what a step changes depends on its gradients' signs and on the
learning rate, and little on what is learned.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.runtime import task
from bench.runtime.our_side import _learner
from hetrl_runtime.trainer.batch import collate
from hetrl_runtime.transport.weights import patch
from hetrl_runtime.transport.weights.regions import Bytes
from hetrl_runtime.wire.trajectory import SampledTrajectory

LEARNING_RATES = (1e-6, 1e-5)
_STEPS = 3
_GROUP_SIZE = 4
_BATCH_SIZE = 8
_RESPONSE_TOKENS = 24


def measure(size: task.Size, dtype: torch.dtype, learning_rate: float) -> dict[str, Any]:
    """Return sizes and times of the patch of the last of a few steps, and of a whole one."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="hetrl-wire-") as name:
        folder = random_model(Path(name), size, dtype)
        learner = _learner(
            {
                "model": str(folder),
                "batch_size": _BATCH_SIZE,
                "group_size": _GROUP_SIZE,
                "learning_rate": learning_rate,
                "seed": 1,
                "max_tokens": _RESPONSE_TOKENS,
            }
        )
        learner.restore(None)
        after = learner.weights()
        for version in range(_STEPS):
            before = after
            trajectories = [_trajectory(version, member) for member in range(_BATCH_SIZE)]
            batch = collate(trajectories, rewards=[each.reward for each in trajectories])
            learner.train(batch, version=version)
            after = learner.weights()
    return _patched(before, after)


def random_model(folder: Path, size: task.Size, dtype: torch.dtype) -> Path:
    """Write a model that was shown nothing; return its folder."""
    task.make_model(folder / "model", replace(size, lessons=0, files=dtype), task.SHORT)
    return folder / "model"


def _patched(before: Bytes, after: Bytes) -> dict[str, Any]:
    began = time.process_time()
    delta = patch.make(after, base=before)
    made = time.process_time()
    result = patch.apply(delta, base=before)
    applied = time.process_time()
    assert isinstance(result, bytearray)
    assert bytes(result) == after
    assert before != after
    return {
        "bytes": len(after),
        "delta_bytes": len(delta),
        "whole_bytes": len(patch.make(after)),
        "make_cpu_seconds": made - began,
        "apply_cpu_seconds": applied - made,
    }


def _trajectory(version: int, number: int) -> SampledTrajectory:
    rng = np.random.default_rng([version, number])
    return SampledTrajectory(
        group=number // _GROUP_SIZE,
        member=number % _GROUP_SIZE,
        epoch=1,
        process="rollout-0",
        prompt_tokens=rng.integers(1, 90, task.PROMPT_TOKENS, dtype=np.int32),
        response_tokens=rng.integers(1, 90, _RESPONSE_TOKENS, dtype=np.int32),
        behaviour_log_probs=np.full(_RESPONSE_TOKENS, -4.8, dtype=np.float32),
        token_versions=np.full(_RESPONSE_TOKENS, version, dtype=np.int32),
        reward=float(rng.random()),
        finish_reason="length",
    )
