"""The models that one process of a trainer has a part of, loaded as its launch contract says."""

import torch

from hetrl_core.job.algorithm import AlgorithmType
from hetrl_core.launch import Launch
from hetrl_core.plan.plan import Recompute
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.task import Task
from hetrl_runtime.trainer.actor import Actor
from hetrl_runtime.trainer.critic import Critic, ValueModel
from hetrl_runtime.trainer.learner import Learner
from hetrl_runtime.trainer.model.model import Policy
from hetrl_runtime.trainer.processes.peers import Peers


def learner_of(launch: Launch, rank: Rank, peers: Peers, *, device: torch.device) -> Learner:
    """Load what a process trains and asks.

    Raises:
        ModelError: a model is not there, cannot be loaded, or cannot be split as requested.
    """
    is_reference_given = Task.REFERENCE_INFERENCE in launch.inference_tasks
    return Learner(
        actor=_actor(launch, peers, device) if rank.task is Task.ACTOR_TRAINING else None,
        critic=_critic(launch, peers, device) if _trains_critic(launch, rank) else None,
        reference=(
            _policy(launch, peers, device, is_trained=False)
            if not is_reference_given and _has_reference(launch, rank, peers)
            else None
        ),
        is_reference_given=is_reference_given,
        algorithm=launch.algorithm,
        training=launch.training,
        max_response_tokens=launch.data.max_response_tokens,
        peers=peers,
    )


def _trains_critic(launch: Launch, rank: Rank) -> bool:
    if launch.critic_split:
        return rank.task is Task.CRITIC_TRAINING
    return launch.algorithm.type is AlgorithmType.PPO


def _has_reference(launch: Launch, rank: Rank, peers: Peers) -> bool:
    """Tell whether a process is one of those that have the reference, if trainers have it."""
    colocated = {each.task for each in launch.ranks if each.ordinal == rank.ordinal}
    is_here = not peers.gang.is_apart or Task.REFERENCE_INFERENCE in colocated
    return is_here and launch.algorithm.kl_coefficient > 0


def _actor(launch: Launch, peers: Peers, device: torch.device) -> Actor:
    policy = _policy(launch, peers, device, is_trained=True)
    return Actor(policy, algorithm=launch.algorithm, training=launch.training)


def _critic(launch: Launch, peers: Peers, device: torch.device) -> Critic:
    model = ValueModel(
        launch.model,
        device=device,
        mesh=peers.mesh,
        recompute=_recomputes(peers, device),
        lengths=launch.data.lengths,
    )
    return Critic(model, algorithm=launch.algorithm, training=launch.training)


def _policy(launch: Launch, peers: Peers, device: torch.device, *, is_trained: bool) -> Policy:
    return Policy(
        launch.model,
        device=device,
        temperature=launch.algorithm.temperature,
        mesh=peers.mesh,
        recompute=is_trained and _recomputes(peers, device),
        lengths=launch.data.lengths,
    )


def _recomputes(peers: Peers, device: torch.device) -> bool:
    # On a CPU there is memory enough, and time is what lacks.
    return device.type == "cuda" and peers.gang.split.mode.recompute is Recompute.FULL
