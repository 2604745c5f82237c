"""Launch contracts of local processes: the pods of a plan, with loopback addresses.

Pure. The operator's manifests and this module read the same pod sets, so a process sees no
difference.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hetrl_cli.run.setup.folder import RunFolder
from hetrl_cli.run.setup.ports import LOOPBACK
from hetrl_core.job.spec import JobSpec
from hetrl_core.launch import Address, JobIdentity, Launch, TlsFiles, launch_of
from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import PodSet, pod_sets
from hetrl_core.task import Role

NUM_PORTS = 3
"""Of the coordinator, the weights and the trainers' rendezvous; metrics have one a process more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One process, named and numbered as its pod would be."""

    name: str
    ordinal: int
    launch: Launch
    gpu_kind: str = ""
    """Empty for the coordinator."""


def pods(
    plan: Plan,
    job: JobSpec,
    *,
    identity: JobIdentity,
    folder: RunFolder,
    ports: tuple[int, ...],
    startup_deadline_seconds: float,
    encrypted: bool,
) -> tuple[Pod, ...]:
    """Return the processes of a plan, the coordinator first.

    Args:
        plan: the plan to run.
        job: the job's spec.
        identity: the run's identity.
        folder: the run's folder, which they read and write.
        ports: free ones: those of ``NUM_PORTS``, then one for each process's metrics; where they
            end, a process takes any.
        startup_deadline_seconds: how long they wait for each other.
        encrypted: whether they have certificates.
    """
    sets = pod_sets(plan)
    coordinator, weights, rendezvous = (
        Address(host=LOOPBACK, port=port) for port in ports[:NUM_PORTS]
    )
    metrics_ports = iter(ports[NUM_PORTS:])
    max_concurrent = sum(each.num_pods * each.concurrency for each in sets if each.generates)
    found: list[Pod] = []
    for each in sets:
        launch = launch_of(
            plan,
            job,
            each,
            sets,
            job=identity,
            max_concurrent=max_concurrent,
            listen_host=LOOPBACK,
            coordinator=coordinator,
            weights=weights,
            rendezvous=rendezvous,
            training=job.training,
            state_path=str(folder.path),
            checkpoint_path=job.training.checkpoint_path or str(folder.checkpoints),
            startup_deadline_seconds=startup_deadline_seconds,
        )
        found += _of_set(each, launch, folder, metrics_ports, encrypted=encrypted)
    return tuple(found)


def _of_set(
    pods: PodSet,
    launch: Launch,
    folder: RunFolder,
    metrics_ports: Iterator[int],
    *,
    encrypted: bool,
) -> Iterator[Pod]:
    for ordinal in range(pods.num_pods):
        name = f"{pods.name}-{ordinal}"
        yield Pod(
            name=name,
            ordinal=ordinal,
            gpu_kind=pods.gpu_kind,
            launch=replace(
                launch,
                # A fixed port would collide: all processes share one machine.
                metrics_port=next(metrics_ports, 0),
                more_metrics_ports=tuple(next(metrics_ports, 0) for _ in pods.programs[1:]),
                state_path=str(folder.state(name)),
                tls=_tls(folder, pods.role) if encrypted else None,
            ),
        )


def _tls(folder: RunFolder, role: Role) -> TlsFiles:
    return TlsFiles(
        ca=str(folder.tls / "ca.crt"),
        certificate=str(folder.tls / f"{role}.crt"),
        key=str(folder.tls / f"{role}.key"),
    )
