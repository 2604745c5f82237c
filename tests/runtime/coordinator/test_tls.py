"""Mutual TLS between the processes of a job, with real certificates and sockets."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from hetrl_core.launch import Address, TlsFiles
from hetrl_runtime.coordinator.server import serve
from hetrl_runtime.transport.clients.coordinator_client import WorkerClient
from hetrl_runtime.transport.errors import Unreachable
from tests.runtime.certificates import Authority
from tests.runtime.coordinators import a_coordinator
from tests.runtime.launches import a_launch

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", ["its own", "another job's", "none"])
async def test_certificate_of_the_job_is_required(tmp_path: Path, case: str) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    served = a_launch(tmp_path, tls=ours.leaf("coordinator"))
    # The intruder trusts our coordinator, so only the coordinator's refusal can stop it.
    tls: TlsFiles | None = {
        "its own": ours.leaf("rollout"),
        "another job's": replace(theirs.leaf("rollout"), ca=str(ours.ca)),
        "none": None,
    }[case]
    launch = replace(served, tls=tls, startup_deadline_seconds=1.5)

    async with a_coordinator(served):
        if case == "its own":
            async with WorkerClient(launch, process="rollout-0") as client:
                assert client.registration.version == 0
        else:
            with pytest.raises(Unreachable, match=r"did not answer for 1\.5 s"):
                async with WorkerClient(launch, process="rollout-0"):
                    pass


async def test_coordinator_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    served = a_launch(tmp_path, tls=Authority(tmp_path / "ours").leaf("coordinator"))
    launch = replace(
        served, tls=Authority(tmp_path / "theirs").leaf("rollout"), startup_deadline_seconds=1.5
    )

    async with a_coordinator(served):
        with pytest.raises(Unreachable):
            async with WorkerClient(launch, process="rollout-0"):
                pass


@pytest.mark.parametrize("host", ["10.0.0.7", "coordinator.example"])
async def test_clear_text_connection_to_another_machine_is_refused(
    tmp_path: Path, host: str
) -> None:
    launch = a_launch(tmp_path, coordinator=Address(host=host, port=1))

    with pytest.raises(ValueError, match=f"{host}:1: without tls certificates only loopback"):
        WorkerClient(launch, process="rollout-0")


async def test_clear_text_listener_for_other_machines_is_refused(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, listen_host="0.0.0.0")

    with pytest.raises(ValueError, match="without tls certificates only loopback"):
        await serve(launch, stop=asyncio.Event())
