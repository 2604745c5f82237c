"""Which models a pod has: those of its tasks in the rank table."""

from collections.abc import Collection

import torch

from hetrl_core.launch import Launch
from hetrl_core.task import Task
from hetrl_runtime.inference.reference import ReferenceModel
from hetrl_runtime.inference.reward_model import RewardModel
from hetrl_runtime.inference.worker import Models
from hetrl_runtime.trainer.processes.peers import Peers


def load(launch: Launch, tasks: Collection[Task], peers: Peers, *, device: torch.device) -> Models:
    """Load what a pod's tasks need; what is not divided, on the first of its processes alone.

    Raises:
        ModelError: a model is not there, or cannot be what it is to be.
    """
    reference = reward = None
    if Task.REFERENCE_INFERENCE in tasks:
        reference = ReferenceModel(launch, peers, device=device)
    if Task.REWARD_INFERENCE in tasks and peers.rank == 0:
        files = launch.data.model
        assert files, "a plan has this task only for a job that has such a model"
        reward = RewardModel(files, device=device)
    return Models(reference=reference, reward=reward)
