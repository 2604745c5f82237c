"""A writer without an operator around it, and the objects of a job that it is to write."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kubernetes.aio import client, config
from prometheus_client import CollectorRegistry

from e2e.cluster.cluster import Cluster
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import Role
from hetrl_operator.http.metrics import Metrics
from hetrl_operator.kube.client import KubernetesApi
from hetrl_operator.kube.paths import collection
from hetrl_operator.kube.rate_limiter import RateLimiter
from hetrl_operator.model.actions import Apply, IssueCertificates, Manifest, SubmitWorkload
from hetrl_operator.model.observed import JobSeen
from hetrl_operator.model.parse import job_seen
from hetrl_operator.render import Deployment, certificates, children, plan_manifest
from hetrl_operator.render.kueue_workload import submission
from tests.controller.values import SETTINGS, a_job_object, a_plan, a_plan_seen, parsed_of

CHILD_KINDS = ("Secret", "ConfigMap", "Service", "StatefulSet", "HetRLPlan", "Workload")


@asynccontextmanager
async def connection(cluster: Cluster) -> AsyncIterator[KubernetesApi]:
    """Connect as the cluster's administrator."""
    configuration = client.Configuration()

    async def log_in() -> None:
        await config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)

    await log_in()
    found = KubernetesApi(
        client.ApiClient(configuration),
        Metrics(CollectorRegistry()),
        rate_limiter=RateLimiter(per_second=100.0, burst=100),
        log_in=log_in,
    )
    try:
        yield found
    finally:
        await found.close()


async def create(api: KubernetesApi, body: Manifest) -> dict[str, Any]:
    """Create an object as a user does, and return it."""
    namespace = body["metadata"].get("namespace", "default")
    reply = await api.request("POST", collection(body["kind"], namespace), body=body)
    assert reply.is_success, reply
    return dict(reply.body)


async def read(api: KubernetesApi, kind: str, name: str) -> dict[str, Any]:
    """Return an object of namespace default."""
    reply = await api.request("GET", f"{collection(kind, 'default')}/{name}")
    assert reply.is_success, reply
    return dict(reply.body)


async def delete(api: KubernetesApi, kind: str, name: str) -> None:
    """Delete an object of namespace default."""
    reply = await api.request("DELETE", f"{collection(kind, 'default')}/{name}")
    assert reply.is_success, reply


async def a_stored_job(
    api: KubernetesApi, name: str, *, finalizers: tuple[str, ...] = (), **spec: Any
) -> JobSeen:
    """Create a HetRLJob, and return it as the operator sees it."""
    body = a_job_object(name=name, **spec)
    body["metadata"] = {"name": name, "namespace": "default", "finalizers": list(finalizers)}
    return job_seen(await create(api, body))


def deployment_of(job: JobSeen) -> Deployment:
    """Return a job with a plan, to be rendered."""
    plan = a_plan()
    return Deployment(
        job=job,
        parsed=parsed_of(job),
        plan=a_plan_seen(job, plan),
        sets=pod_sets(plan),
        running=frozenset(Role),
        settings=SETTINGS,
    )


def write_of(kind: str, job: JobSeen) -> Apply | IssueCertificates | SubmitWorkload:
    """Return the action that writes a job's object of a kind; where there are several, the last."""
    match kind:
        case "Secret":
            return certificates(deployment_of(job))
        case "Workload":
            return submission(job, parsed_of(job), ())
        case "HetRLPlan":
            manifest = plan_manifest(job, a_plan(), key="k", spec_key="s", name=f"{job.name}-k")
            return Apply(manifest=manifest)
        case _:
            rendered = children(deployment_of(job))
            return Apply(manifest=[each for each in rendered if each["kind"] == kind][-1])


def name_written(action: Apply | IssueCertificates | SubmitWorkload) -> str:
    """Return the name of the object that an action writes."""
    if isinstance(action, IssueCertificates):
        return action.secret
    return str(action.manifest["metadata"]["name"])
