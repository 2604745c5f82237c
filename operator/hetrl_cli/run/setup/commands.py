"""Commands that start pods as local processes: the same `hetrl` entry point as in containers."""

import sys
from collections.abc import Mapping
from pathlib import Path

from hetrl_cli.run.processes.process import Command
from hetrl_cli.run.setup.contracts import Pod
from hetrl_cli.run.setup.folder import RunFolder
from hetrl_core.job.spec import Engine
from hetrl_core.task import Task

ROLLOUT_PYTHON = "HETRL_ROLLOUT_PYTHON"
"""Names the Python whose environment has vLLM, where that is not the one that runs us."""

_ONE_THREAD = {
    # Each process would otherwise start a thread a core, and all of them would wait for each
    # other: on two cores that costs far more than it brings.
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def commands(
    pods: tuple[Pod, ...], folder: RunFolder, *, environment: Mapping[str, str], num_devices: int
) -> tuple[Command, ...]:
    """Return the command of each pod.

    Args:
        pods: the processes of the plan.
        folder: where contracts were written and logs go.
        environment: ours, which the processes inherit; what it sets is left as it is.
        num_devices: GPUs that this machine really has; processes share them in turn.
    """
    found: list[Command] = []
    next_device = 0
    for pod in pods:
        ranks = [rank for rank in pod.launch.ranks if rank.ordinal == pod.ordinal]
        num_gpus = len({rank.local_gpu for rank in ranks})
        devices = [(next_device + gpu) % num_devices for gpu in range(num_gpus) if num_devices]
        next_device += num_gpus
        found.append(
            Command(
                name=pod.name,
                role=pod.launch.role,
                arguments=(
                    str(_entry_point(pod, environment)),
                    pod.launch.role.value,
                    "--launch",
                    str(folder.contracts / f"{pod.name}.json"),
                    "--ordinal",
                    str(pod.ordinal),
                ),
                environment=_ONE_THREAD | dict(environment) | _visible(devices, environment),
                log=folder.logs / f"{pod.name}.log",
            )
        )
    return tuple(found)


def _entry_point(pod: Pod, environment: Mapping[str, str]) -> Path:
    python = Path(sys.executable)
    tasks = {rank.task for rank in pod.launch.ranks if rank.ordinal == pod.ordinal}
    if Task.ACTOR_GENERATION in tasks and pod.launch.engine is Engine.VLLM:
        python = Path(environment.get(ROLLOUT_PYTHON, python))
    return python.parent / "hetrl"


def _visible(devices: list[int], environment: Mapping[str, str]) -> dict[str, str]:
    if not devices or "CUDA_VISIBLE_DEVICES" in environment:
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(device) for device in sorted(set(devices)))}
