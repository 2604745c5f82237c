"""The program of an inference worker's pod: a process for each of its GPUs."""

import asyncio
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from hetrl_core.launch import TERMINAL_EXIT_CODE, Launch
from hetrl_core.plan.groupings import SCORES, named
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.task import Task, asked_of_workers
from hetrl_runtime.compute import memory
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.process import logs
from hetrl_runtime.process.child_processes import run_together
from hetrl_runtime.process.graceful_shutdown import until_stopped
from hetrl_runtime.transport.errors import RunEnded, TransportError


def serve(launch: Launch, ordinal: int) -> int:
    """Do a pod's part, a process for each GPU; return the exit code."""
    try:
        ranks = _ranks(launch, ordinal)
    except ValueError as error:
        click.echo(str(error), err=True)
        return 1
    if len(ranks) == 1:
        return score(launch, ranks[0], ranks=ranks)
    with TemporaryDirectory(prefix="hetrl-inference-") as folder:
        meeting = Path(folder) / "ranks"
        return run_together(
            [partial(score, launch, rank, ranks=ranks, meeting=meeting) for rank in ranks]
        )


def score(launch: Launch, rank: Rank, *, ranks: Sequence[Rank], meeting: Path | None = None) -> int:
    """Do one rank's part; return the exit code, after saying on the last line why.

    ``meeting`` is the file in which the ranks of a pod find each other.
    """
    logs.configure()
    memory.keep_freed()
    # PyTorch takes seconds to import; `hetrl --help` should not.

    try:
        _score(launch, rank, ranks=ranks, meeting=meeting)
    except RunEnded as ended:
        click.echo(str(ended), err=True)
    except ModelError as error:
        click.echo(str(error), err=True)
        return TERMINAL_EXIT_CODE
    except (OSError, ValueError, RuntimeError, TransportError) as error:
        click.echo(str(error), err=True)
        return 1
    return 0


def _score(launch: Launch, rank: Rank, *, ranks: Sequence[Rank], meeting: Path | None) -> None:
    from hetrl_runtime.inference.reference import place_in_pod  # noqa: PLC0415  # see above
    from hetrl_runtime.inference.worker import Models, work  # noqa: PLC0415
    from hetrl_runtime.trainer.model.model import best_device  # noqa: PLC0415
    from hetrl_runtime.trainer.processes.peers import Peers  # noqa: PLC0415

    device, place = best_device(rank.local_gpu), place_in_pod(ranks, rank)
    tasks = asked(launch, rank.ordinal)
    with Peers(launch, place=place, device=device, meeting=meeting) as peers:
        loading = partial(Models.load, launch, tasks, peers, device=device)
        if place.rank:
            # They end with rank 0, which hears of a stop as well and may still need them.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            models = loading()
            assert models.reference, "only the reference is divided"
            models.reference.follow()
            return
        process = f"{launch.pod_set}-{rank.ordinal}"
        ending = asyncio.run(until_stopped(work(launch, loading, process=process)))
    click.echo(f"the run ended: {ending.reason}", err=True)


def asked(launch: Launch, ordinal: int) -> frozenset[Task]:
    """Return what a pod's inference worker is asked."""
    return asked_of_workers(launch.tasks_of(ordinal))


def _ranks(launch: Launch, ordinal: int) -> list[Rank]:
    """Return this pod's rows of the rank table, one a GPU.

    Raises:
        ValueError: it has none, other tasks than an inference worker does, or several replicas.
    """
    tasks = asked(launch, ordinal)
    mine = [rank for rank in launch.ranks if rank.ordinal == ordinal and rank.task in tasks]
    if tasks not in SCORES:
        allowed = "; ".join(named(each) for each in SCORES)
        has = named(launch.tasks_of(ordinal)) or "no"
        raise ValueError(
            f"pod {launch.pod_set}-{ordinal} has {has} ranks; an inference "
            f"worker's pod has those of {allowed}"
        )
    by_gpu = {rank.local_gpu: rank for rank in mine}
    if len({rank.replica for rank in mine}) > 1 or any(rank.stage for rank in mine):
        raise ValueError(
            f"pod {launch.pod_set}-{ordinal} has {len(by_gpu)} GPUs of several replicas or stages; "
            "an inference worker's pod has one replica without pipeline stages"
        )
    return [by_gpu[gpu] for gpu in sorted(by_gpu)]
