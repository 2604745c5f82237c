"""The launch contract of one pod set, and where its pods find their files.

Everything below ``/hetrl`` in a pod is ours; the rest of the file system is the image's.
"""

from dataclasses import replace

from hetrl_api.job.to_core import CHECKPOINTS_PATH
from hetrl_core.launch import Address, JobIdentity, Launch, ProgressTarget, TlsFiles, launch_of
from hetrl_core.plan.pod_sets import PodSet
from hetrl_core.task import Role
from hetrl_operator.render.deployment import (
    COORDINATOR_PORT,
    INFERENCE_PORT,
    METRICS_PORT,
    MORE_METRICS,
    RENDEZVOUS_PORT,
    WEIGHTS_PORT,
    Deployment,
)

LAUNCH_DIRECTORY = "/hetrl/launch"
LAUNCH_FILE = "launch.json"
TLS_DIRECTORY = "/hetrl/tls"
OPERATOR_DIRECTORY = "/hetrl/operator"
STATE_DIRECTORY = "/hetrl/state"


def progress_path(namespace: str, name: str) -> str:
    """Return the path at which our endpoint takes one job's progress."""
    return f"/v1/namespaces/{namespace}/hetrljobs/{name}/progress"


def launch(deployment: Deployment, pods: PodSet) -> Launch:
    """Return the launch contract of a pod set."""
    job, spec, plan = deployment.job, deployment.parsed.spec, deployment.plan.plan
    checkpoints = checkpoint_path(deployment)
    return launch_of(
        plan,
        spec,
        pods,
        deployment.sets,
        job=JobIdentity(namespace=job.namespace, name=job.name, uid=job.uid),
        max_concurrent=_max_concurrent(deployment),
        coordinator=Address(host=deployment.coordinator_host, port=COORDINATOR_PORT),
        weights=Address(host=deployment.first_trainer_host, port=WEIGHTS_PORT),
        inference_port=INFERENCE_PORT,
        rendezvous=Address(host=deployment.first_trainer_host, port=RENDEZVOUS_PORT),
        metrics_port=METRICS_PORT,
        more_metrics_ports=tuple(MORE_METRICS[each][1] for each in pods.programs[1:]),
        training=replace(spec.training, checkpoint_path=checkpoints),
        state_path=STATE_DIRECTORY,
        checkpoint_path=checkpoints,
        startup_deadline_seconds=float(deployment.parsed.written.startup_deadline_seconds),
        tls=TlsFiles(
            ca=f"{TLS_DIRECTORY}/ca.crt",
            certificate=f"{TLS_DIRECTORY}/tls.crt",
            key=f"{TLS_DIRECTORY}/tls.key",
        ),
        progress=_progress(deployment) if pods.role is Role.COORDINATOR else None,
    )


def _max_concurrent(deployment: Deployment) -> int:
    """Return a limit that rollouts added later do not reach.

    Each pod observes its own concurrency, and the staleness bound never leases more than the
    batches that it spans.
    """
    algorithm = deployment.parsed.spec.algorithm
    planned = sum(each.num_pods * each.concurrency for each in deployment.sets if each.generates)
    return max(1, planned, (algorithm.max_staleness + 1) * algorithm.global_batch_size)


def checkpoint_path(deployment: Deployment) -> str:
    """Return the folder of this job's checkpoints, on its claim or in the trainer's pod."""
    asked = deployment.parsed.spec.training.checkpoint_path
    return asked or f"{CHECKPOINTS_PATH}/{deployment.job.name}"


def _progress(deployment: Deployment) -> ProgressTarget | None:
    settings = deployment.settings
    if not settings.progress_url:
        return None
    path = progress_path(deployment.job.namespace, deployment.job.name)
    return ProgressTarget(
        url=f"{settings.progress_url}{path}",
        token_file=f"{OPERATOR_DIRECTORY}/token",
        ca_file=f"{OPERATOR_DIRECTORY}/ca.crt",
    )
