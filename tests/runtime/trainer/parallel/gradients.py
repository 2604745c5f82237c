"""A minibatch's gradients by a model, whole or divided among processes."""

from typing import Any

import torch

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.trainer.batch import Batch, collate
from hetrl_runtime.trainer.model.model import Policy, TokenScores
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.passes import Pass, cut
from hetrl_runtime.trainer.parallel.place import dealt
from tests.runtime.trainer.parallel.crew import CPU
from tests.runtime.trainer.trajectories import a_trajectory

MAX_TOKENS = 24
"""Of a pass: few, so that replicas have several, and not as many."""


def a_batch() -> Batch:
    """Rows of different lengths."""
    trajectories = [
        a_trajectory(
            group=index, prompt=[10 + index] * (1 + index), response=[30 + index] * (1 + index % 3)
        )
        for index in range(8)
    ]
    return collate(trajectories, rewards=[0.0] * 8)


def likelihood(each: Pass, scores: TokenScores) -> torch.Tensor:
    return -scores.log_probs_BR.masked_fill(~each.batch.mask_BR, 0.0).sum() / 16


def found_by(
    mesh: Mesh | None, files: ModelFiles, *, recompute: bool = False
) -> tuple[dict[str, Any], float, bytes]:
    """Return a minibatch's full gradients, their norm, and the weights as they were read."""
    policy = Policy(files, device=CPU, temperature=0.7, mesh=mesh, recompute=recompute)
    batch, split = a_batch(), policy.place.split
    parts = dealt(torch.arange(len(batch)), split.shares)
    passes = cut(batch, parts, policy.place.replica, split=split, max_tokens=MAX_TOKENS)
    list(policy.score(passes))
    policy.backward(passes, likelihood)
    norm = float(policy.gradient_norm())
    gradients = policy.gather({name: each.grad for name, each in policy.named_parameters().items()})
    # As arrays: tensors would come back through shared memory, which is not always there.
    return (
        {name: each.numpy() for name, each in gradients.items()},
        norm,
        bytes(policy.to_safetensors()),
    )
