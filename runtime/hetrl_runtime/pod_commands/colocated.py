"""Colocated programs: those of other roles that share a pod's GPUs with its own program.

A rollout worker can share a trainer's pod, and an inference worker the pod of either. Each program
runs as in a pod of its own, under its own name, and ends with the pod. They compute on the same
GPUs; the plan decides whether they take turns.
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
    """Yield a pod's colocated programs; each returns an exit code."""
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
