"""``hetrl trainer``: the command that a trainer's pod runs."""

import contextlib
import sys
from dataclasses import replace
from pathlib import Path

import click

from hetrl_core import launch as contract
from hetrl_core.algorithm import AlgorithmType
from hetrl_core.groupings import TRAINS, named
from hetrl_core.launch import TERMINAL_EXIT_CODE, Launch
from hetrl_core.plan import Recompute
from hetrl_core.podset import Rank
from hetrl_core.task import Task
from hetrl_runtime import logs, memory
from hetrl_runtime.pod import launch_option, ordinal_option
from hetrl_runtime.tracing.opening import TracesUnavailableError, tracer_of
from hetrl_runtime.tracing.span import NO_TRACER
from hetrl_runtime.trainer.processes import run_together
from hetrl_runtime.transport.errors import Refused, TransportError
from hetrl_runtime.wire.values import Ending


@click.command("trainer")
@launch_option
@ordinal_option
def command(launch_file: Path, ordinal: int) -> None:
    """Train a pod's parts of the policy on the batches of a run, a process for each GPU.

    Ends with 0 when all steps are done, and after SIGTERM, with a checkpoint of the last step;
    with 3 when the run failed for good, the reason on the last line; else with 1.
    """
    try:
        launch = contract.from_json(launch_file.read_text())
        ranks = _training_ranks(launch, ordinal)
    except (OSError, ValueError) as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    if len(ranks) == 1:
        sys.exit(train(launch, ranks[0]))
    sys.exit(run_together(train, launch, ranks))


def train(launch: Launch, rank: Rank) -> int:
    """Train one rank's part; return the exit code, after saying on the last line why."""
    logs.configure()
    memory.keep_freed()
    # PyTorch takes seconds to import; `hetrl --help` should not.
    from hetrl_runtime.trainer.checkpoint import CheckpointError  # noqa: PLC0415
    from hetrl_runtime.trainer.model import ModelError  # noqa: PLC0415

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
    from hetrl_runtime.trainer.critic import Critic, ValueModel  # noqa: PLC0415  # see above
    from hetrl_runtime.trainer.learner import Learner  # noqa: PLC0415
    from hetrl_runtime.trainer.loop import Leader, follow  # noqa: PLC0415
    from hetrl_runtime.trainer.model import Policy, best_device  # noqa: PLC0415
    from hetrl_runtime.trainer.parallel.place import Place  # noqa: PLC0415
    from hetrl_runtime.trainer.peers import Peers  # noqa: PLC0415
    from hetrl_runtime.trainer.stop import StopSignal  # noqa: PLC0415

    stop = StopSignal()
    device = best_device(rank.local_gpu)
    place = Place.of(rank, launch.training_split)
    mode = launch.training_split.mode
    # On a CPU there is memory enough, and time is what lacks.
    recompute = device.type == "cuda" and mode.recompute is Recompute.FULL
    process = f"{launch.pod_set}-{rank.ordinal}"
    with contextlib.ExitStack() as open_parts:
        # The leader alone knows of steps.
        tracer = NO_TRACER
        if place.rank == 0:
            tracer = open_parts.enter_context(tracer_of(launch, process=process))
        peers = open_parts.enter_context(Peers(launch, place=place, device=device))

        def load(*, recompute: bool) -> Policy:
            return Policy(
                launch.model, device=device, temperature=launch.algorithm.temperature,
                mesh=peers.mesh, recompute=recompute,
            )  # fmt: skip

        def load_critic() -> Critic:
            return Critic(
                ValueModel(launch.model, device=device, mesh=peers.mesh, recompute=recompute),
                algorithm=launch.algorithm, training=launch.training, peers=peers,
            )  # fmt: skip

        is_reference_given = Task.REFERENCE_INFERENCE in launch.inference_tasks
        has_reference = launch.algorithm.kl_coefficient > 0 and not is_reference_given
        learner = Learner(
            load(recompute=recompute),
            reference=load(recompute=False) if has_reference else None,
            is_reference_given=is_reference_given,
            critic=load_critic() if launch.algorithm.type is AlgorithmType.PPO else None,
            algorithm=launch.algorithm,
            training=launch.training,
            max_response_tokens=launch.data.max_response_tokens,
            peers=peers,
        )
        if peers.rank:
            follow(launch, learner, peers)
            return None
        leader = Leader(
            launch, process=process, learner=learner, peers=peers, stop=stop, tracer=tracer
        )
        return leader.run()


def _training_ranks(launch: Launch, ordinal: int) -> list[Rank]:
    """Return this pod's rows of the rank table, one a GPU: those of training.

    Raises:
        ValueError: it has none, or other tasks than a trainer's processes do.
    """
    mine = [rank for rank in launch.ranks if rank.ordinal == ordinal]
    tasks = frozenset(rank.task for rank in mine)
    if tasks not in TRAINS:
        raise ValueError(
            f"pod {launch.pod_set}-{ordinal} has {named(tasks) or 'no'} ranks; a trainer's pod has "
            f"{Task.ACTOR_TRAINING} ranks, beside them at most those of reference and critic"
        )
    is_ppo = launch.algorithm.type is AlgorithmType.PPO
    if is_ppo is not (Task.CRITIC_TRAINING in tasks):
        raise ValueError(
            f"pod {launch.pod_set}-{ordinal} has {named(tasks)} ranks; algorithm "
            f"{launch.algorithm.type} has {'a' if is_ppo else 'no'} critic"
        )
    return [rank for rank in mine if rank.task is Task.ACTOR_TRAINING]


def _failed(message: str, code: int) -> int:
    click.echo(message, err=True)
    return code
