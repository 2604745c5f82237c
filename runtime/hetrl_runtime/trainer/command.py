"""``hetrl trainer``: the command that a trainer's pod runs."""

import sys
from pathlib import Path

import click

from hetrl_core import launch as contract
from hetrl_core.launch import TERMINAL_EXIT_CODE, Launch
from hetrl_core.podset import Rank
from hetrl_core.task import Task
from hetrl_runtime import logs
from hetrl_runtime.pod import launch_option, ordinal_option
from hetrl_runtime.transport.errors import Refused, TransportError
from hetrl_runtime.wire.values import Ending


@click.command("trainer")
@launch_option
@ordinal_option
def command(launch_file: Path, ordinal: int) -> None:
    """Train one replica of the policy on the batches of a run.

    Ends with 0 when all steps are done, and after SIGTERM, with a checkpoint of the last step;
    with 3 when the run failed for good, the reason on the last line; else with 1.
    """
    logs.configure()
    # PyTorch takes seconds to import; `hetrl --help` should not.
    from hetrl_runtime.trainer.checkpoint import CheckpointError  # noqa: PLC0415
    from hetrl_runtime.trainer.model import ModelError  # noqa: PLC0415

    try:
        launch = contract.from_json(launch_file.read_text())
        ending = _train(launch, ordinal)
    except (ModelError, CheckpointError, Refused) as error:
        _fail(str(error), TERMINAL_EXIT_CODE)
    except (OSError, ValueError, RuntimeError, TransportError) as error:
        _fail(str(error), 1)
    if ending and not ending.succeeded:
        _fail(f"{ending.reason}: {ending.message}", TERMINAL_EXIT_CODE)


def _train(launch: Launch, ordinal: int) -> Ending | None:
    from hetrl_runtime.trainer.learner import Learner  # noqa: PLC0415  # see above
    from hetrl_runtime.trainer.loop import Leader, follow  # noqa: PLC0415
    from hetrl_runtime.trainer.model import Policy, best_device  # noqa: PLC0415
    from hetrl_runtime.trainer.peers import Peers  # noqa: PLC0415
    from hetrl_runtime.trainer.stop import StopSignal  # noqa: PLC0415

    stop = StopSignal()
    rank = _training_rank(launch, ordinal)
    device = best_device(rank.local_gpu)
    temperature = launch.algorithm.temperature
    policy = Policy(launch.model, device=device, temperature=temperature)
    reference = (
        Policy(launch.model, device=device, temperature=temperature)
        if launch.algorithm.kl_coefficient
        else None
    )
    with Peers(launch, rank=rank.replica, device=device) as peers:
        learner = Learner(
            policy,
            reference=reference,
            algorithm=launch.algorithm,
            training=launch.training,
            max_response_tokens=launch.data.max_response_tokens,
            peers=peers,
        )
        if peers.rank:
            follow(launch, learner, peers)
            return None
        process = f"{launch.pod_set}-{ordinal}"
        return Leader(launch, process=process, learner=learner, peers=peers, stop=stop).run()


def _training_rank(launch: Launch, ordinal: int) -> Rank:
    """Return this pod's row of the rank table.

    Raises:
        ValueError: it has none, or shares its replica with others, which is not done yet.
    """
    mine = [
        rank
        for rank in launch.ranks
        if rank.ordinal == ordinal and rank.task is Task.ACTOR_TRAINING
    ]
    if len(mine) != 1 or mine[0].stage or mine[0].tensor_rank:
        raise ValueError(
            f"pod {launch.pod_set}-{ordinal} has {len(mine)} training ranks; this release trains "
            "data-parallel, with one GPU per replica and one replica per pod"
        )
    return mine[0]


def _fail(message: str, code: int) -> None:
    click.echo(message, err=True)
    sys.exit(code)
