"""What runs in a pod beside its own program, where its GPUs do several roles' work.

A rollout worker beside a trainer, an inference worker beside either: each is the program that it
would be in a pod of its own, under a name of its own, and ends with the pod. They compute on the
same GPUs whenever they have something to do; that they take turns is the plan's business.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from hetrl_core.launch import Launch
from hetrl_core.task import TRAINING_TASKS, Role, Task, programs_of
from hetrl_runtime.process.processes import Work


def tasks_of(launch: Launch, ordinal: int) -> frozenset[Task]:
    """Return what the rank table gives a pod to do."""
    return frozenset(rank.task for rank in launch.ranks if rank.ordinal == ordinal)


def trains_too(launch: Launch, ordinal: int) -> bool:
    """Tell whether a pod trains, whatever else it does."""
    return bool(tasks_of(launch, ordinal) & TRAINING_TASKS)


def works_beside(launch: Launch, ordinal: int) -> Iterator[Work]:
    """Yield what else a pod has to run than the program that the contract names."""
    ports = iter(launch.more_metrics_ports)
    for program in programs_of(tasks_of(launch, ordinal)):
        if program is launch.role:
            continue
        own = replace(
            launch,
            role=program,
            # The coordinator knows processes by name.
            pod_set=f"{launch.pod_set}-{program}",
            metrics_port=next(ports, 0),
            more_metrics_ports=(),
        )
        yield partial(_run, own, ordinal)


def _run(launch: Launch, ordinal: int) -> int:
    if launch.role is Role.ROLLOUT:
        from hetrl_runtime.rollout.command import generate  # noqa: PLC0415

        return generate(launch, ordinal)
    from hetrl_runtime.inference.command import serve  # noqa: PLC0415

    return serve(launch, ordinal)
