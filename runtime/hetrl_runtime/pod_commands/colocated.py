"""Programs that run in a pod beside its own, where its GPUs do the work of several roles.

A rollout worker runs beside a trainer, and an inference worker beside either. Each is the program
that it would be in a pod of its own, under a name of its own, and ends with the pod. They compute
on the same GPUs; the plan decides whether they take turns.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from hetrl_core.launch import Launch
from hetrl_core.task import Role, programs_of
from hetrl_runtime.inference.program import serve
from hetrl_runtime.process.child_processes import Work
from hetrl_runtime.rollout.program import generate

_PROGRAMS: Mapping[Role, Callable[[Launch, int], int]] = {
    Role.ROLLOUT: generate,
    Role.INFERENCE: serve,
}


def colocated_programs(launch: Launch, ordinal: int) -> Iterator[Work]:
    """Yield what a pod runs beside its own program; each returns an exit code."""
    ports = iter(launch.more_metrics_ports)
    for role in programs_of(launch.tasks_of(ordinal)):
        if role is launch.role:
            continue
        own = replace(
            launch,
            role=role,
            # The coordinator identifies processes by name.
            pod_set=f"{launch.pod_set}-{role}",
            metrics_port=next(ports, 0),
            more_metrics_ports=(),
        )
        yield partial(_PROGRAMS[role], own, ordinal)
