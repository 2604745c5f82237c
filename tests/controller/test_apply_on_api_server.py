"""What is written over what, on a real API server and without an operator beside it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubernetes.aio import client, config
from prometheus_client import CollectorRegistry

from e2e.cluster.cluster import Cluster
from hetrl_api.job.status import Phase
from hetrl_operator.http.metrics import Metrics
from hetrl_operator.kube.client import KubernetesApi
from hetrl_operator.kube.rate_limiter import Throttle
from hetrl_operator.kube.write_results import Done, TryAgain
from hetrl_operator.kube.writer import Writer
from hetrl_operator.model.actions import WriteStatus
from hetrl_operator.model.observed import JobSeen
from hetrl_operator.model.parse import job_seen
from tests.api.objects import a_job

pytestmark = pytest.mark.cluster
pytest_plugins = ["e2e.cluster.fixtures"]

CRDS = Path(__file__).parents[2] / "crds"
JOBS = "/apis/hetrl.dev/v1alpha1/namespaces/default/hetrljobs"


@pytest.fixture
async def api(api_server: Cluster) -> AsyncIterator[KubernetesApi]:
    api_server.add_kinds(CRDS)
    configuration = client.Configuration()

    async def log_in() -> None:
        await config.load_kube_config(
            str(api_server.kubeconfig), client_configuration=configuration
        )

    await log_in()
    found = KubernetesApi(
        client.ApiClient(configuration), Metrics(CollectorRegistry()),
        throttle=Throttle(per_second=100.0, at_once=100), log_in=log_in,
    )  # fmt: skip
    yield found
    await found.close()


async def a_stored_job(api: KubernetesApi) -> JobSeen:
    body = a_job()
    body["metadata"] = {"name": "sums", "namespace": "default"}
    reply = await api.request("POST", JOBS, body=body)
    assert reply.is_success, reply
    return job_seen(reply.body)


async def phase(api: KubernetesApi) -> str:
    found = (await api.request("GET", f"{JOBS}/sums")).body
    return str(found["status"]["phase"])


async def test_who_knows_a_job_of_before_its_end_does_not_take_the_end_back(
    api: KubernetesApi,
) -> None:
    writer, before = Writer(api, may_write=lambda: True), await a_stored_job(api)
    ended = before.status.model_copy(update={"phase": Phase.SUCCEEDED})
    runs = before.status.model_copy(update={"phase": Phase.RUNNING})

    written = await writer.perform(before, WriteStatus(status=ended), None)
    refused = await writer.perform(before, WriteStatus(status=runs), None)

    assert isinstance(written, Done)
    assert isinstance(refused, TryAgain), refused
    assert not refused.is_missing, "it is there, only newer"
    assert await phase(api) == "Succeeded"

    newer = job_seen(written.object)
    assert isinstance(await writer.perform(newer, WriteStatus(status=runs), None), Done)
    assert await phase(api) == "Running"
