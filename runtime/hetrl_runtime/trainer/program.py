"""The program of a trainer's pod: one process of it trains one rank's part."""

import contextlib
from dataclasses import replace

import click

from hetrl_core.job.algorithm import AlgorithmType
from hetrl_core.launch import TERMINAL_EXIT_CODE, Launch
from hetrl_core.plan.groupings import TRAINS, TRAINS_CRITIC, named
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.task import Task
from hetrl_runtime.compute import memory
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.process import logs
from hetrl_runtime.tracing.span import NO_TRACER
from hetrl_runtime.tracing.tracer import TracesUnavailableError, tracer_of
from hetrl_runtime.transport.errors import Refused, TransportError
from hetrl_runtime.wire.values import Ending


def train(launch: Launch, rank: Rank) -> int:
    """Train one rank's part; return the exit code, after saying on the last line why."""
    logs.configure()
    memory.keep_freed()
    # PyTorch takes seconds to import; `hetrl --help` should not.
    from hetrl_runtime.trainer.checkpoints.checkpoint import CheckpointError  # noqa: PLC0415

    if rank.local_gpu:
        # The pod's other processes would listen on the same port.
        launch = replace(launch, metrics_port=0)
    try:
        ending = _train(launch, rank)
    except (ModelError, CheckpointError, Refused, TracesUnavailableError) as error:
        return _failed(str(error), TERMINAL_EXIT_CODE)
    except (OSError, ValueError, RuntimeError, TransportError) as error:
        return _failed(str(error), 1)
    if ending and not ending.succeeded:
        return _failed(f"{ending.reason}: {ending.message}", TERMINAL_EXIT_CODE)
    return 0


def _train(launch: Launch, rank: Rank) -> Ending | None:
    from hetrl_runtime.trainer.loading import learner_of  # noqa: PLC0415
    from hetrl_runtime.trainer.loop import Leader, follow  # noqa: PLC0415
    from hetrl_runtime.trainer.model.model import best_device  # noqa: PLC0415
    from hetrl_runtime.trainer.parallel.place import Place  # noqa: PLC0415
    from hetrl_runtime.trainer.processes.gang import Gang  # noqa: PLC0415  # see above
    from hetrl_runtime.trainer.processes.peers import Peers  # noqa: PLC0415
    from hetrl_runtime.trainer.stop_signal import StopSignal  # noqa: PLC0415

    stop = StopSignal()
    device = best_device(rank.local_gpu)
    gang = Gang.of(launch, trains_critic_apart=rank.task is Task.CRITIC_TRAINING)
    place = Place.of(rank, gang.split)
    process = f"{launch.pod_set}-{rank.ordinal}"
    with contextlib.ExitStack() as open_parts:
        # The leader alone knows of steps.
        tracer = NO_TRACER
        if gang.first_rank + place.rank == 0:
            tracer = open_parts.enter_context(tracer_of(launch, process=process))
        peers = open_parts.enter_context(Peers(launch, place=place, device=device, gang=gang))
        learner = learner_of(launch, rank, peers, device=device)
        if peers.rank:
            follow(launch, learner, peers)
            return None
        leader = Leader(
            launch, process=process, learner=learner, peers=peers, stop=stop, tracer=tracer
        )
        return leader.run()


def training_ranks(launch: Launch, ordinal: int) -> list[Rank]:
    """Return this pod's rows of the rank table, one a GPU: those of training.

    Raises:
        ValueError: it has none, or other tasks than a trainer's processes do.
    """
    colocated = {Task.ACTOR_GENERATION, Task.REWARD_INFERENCE}
    tasks = launch.tasks_of(ordinal) - colocated
    if tasks not in {*TRAINS, *TRAINS_CRITIC}:
        raise ValueError(
            f"pod {launch.pod_set}-{ordinal} has {named(tasks) or 'no'} ranks; a trainer's pod has "
            f"{Task.ACTOR_TRAINING} or {Task.CRITIC_TRAINING} ranks, beside them at most those of "
            "reference and critic, generation and rewards"
        )
    has_critic = Task.CRITIC_TRAINING in tasks or launch.critic_split is not None
    if (launch.algorithm.type is AlgorithmType.PPO) is not has_critic:
        raise ValueError(
            f"pod {launch.pod_set}-{ordinal} has {named(tasks)} ranks; algorithm "
            f"{launch.algorithm.type} has {'no' if has_critic else 'a'} critic"
        )
    trains = Task.ACTOR_TRAINING if tasks in TRAINS else Task.CRITIC_TRAINING
    return [each for each in launch.ranks if (each.ordinal, each.task) == (ordinal, trains)]


def _failed(message: str, code: int) -> int:
    click.echo(message, err=True)
    return code
