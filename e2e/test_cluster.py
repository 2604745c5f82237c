"""The local cluster is a real one: what the other stories stand on, checked by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from e2e.cluster import Cluster, CommandFailedError, evenly
from e2e.cluster.cluster import sweep
from e2e.cluster.images import IMAGES, build_images
from e2e.cluster.state import ClusterState, find

pytestmark = [
    pytest.mark.pods,
    pytest.mark.skipif(
        bool(os.environ.get("KUBECONFIG")), reason="checks the local cluster, not KUBECONFIG's"
    ),
]

CHECKOUT = Path(__file__).parents[1]
READ_API = """\
import ssl, sys, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
context = ssl.create_default_context(cafile=folder + "ca.crt")
headers = {"Authorization": "Bearer " + open(folder + "token").read()}
request = urllib.request.Request("https://kubernetes.default.svc" + sys.argv[1], headers=headers)
print(urllib.request.urlopen(request, context=context, timeout=30).read().decode())
"""
# A service's name and address come some moments after its pods are ready.
READ_PAGE = """\
import sys, time, urllib.request
deadline = time.monotonic() + 60
while True:
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=5).status)
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.2)
"""


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    name = f"story-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def test_two_nodes_are_ready_and_look_like_gpu_machines(cluster: Cluster) -> None:
    nodes = {node["metadata"]["name"]: node for node in items(cluster, "nodes")}

    seen = {
        name: (
            node["metadata"]["labels"]["nvidia.com/gpu.product"],
            node["metadata"]["labels"]["topology.kubernetes.io/region"],
            node["status"]["allocatable"]["nvidia.com/gpu"],
            condition(node, "Ready"),
        )
        for name, node in nodes.items()
    }
    assert seen == {
        "a100-0": ("NVIDIA-A100-SXM4-80GB", "us-east", "8", "True"),
        "l4-0": ("NVIDIA-L4", "us-west", "8", "True"),
    }


def test_pods_on_two_nodes_talk_through_a_headless_service(
    cluster: Cluster, namespace: str
) -> None:
    cluster.apply(
        documents(
            service("peers", namespace, cluster_ip="None"),
            pod("server", namespace, node="a100-0", command=["python3", "-m", "http.server"]),
            pod("client", namespace, node="l4-0"),
        )
    )
    wait_until_ready(cluster, namespace, "server", "client")

    answer = execute(cluster, namespace, "client", READ_PAGE, "http://server.peers:8000")

    assert answer.strip() == "200"
    assert "GET / HTTP/1.1" in cluster.kubectl("logs", "server", "--namespace", namespace)


def test_pod_reaches_itself_and_its_neighbour_through_a_service_address(
    cluster: Cluster, namespace: str
) -> None:
    cluster.apply(
        documents(
            service("pages", namespace),
            pod("server", namespace, node="l4-0", command=["python3", "-m", "http.server"]),
            pod("neighbour", namespace, node="l4-0", labels={}),
        )
    )
    wait_until_ready(cluster, namespace, "server", "neighbour")

    url = f"http://pages.{namespace}.svc.cluster.local:8000"
    assert execute(cluster, namespace, "server", READ_PAGE, url).strip() == "200"
    assert execute(cluster, namespace, "neighbour", READ_PAGE, url).strip() == "200"


def test_service_account_has_its_rights_and_no_more(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "serviceaccount", "reader", "--namespace", namespace)
    cluster.kubectl(
        *("create", "rolebinding", "reader", "--namespace", namespace),
        *("--clusterrole=view", f"--serviceaccount={namespace}:reader"),
    )
    cluster.apply(documents(pod("reader", namespace, node="a100-0", account="reader")))
    wait_until_ready(cluster, namespace, "reader")

    pods = execute(cluster, namespace, "reader", READ_API, f"/api/v1/namespaces/{namespace}/pods")

    assert [item["metadata"]["name"] for item in json.loads(pods)["items"]] == ["reader"]
    with pytest.raises(CommandFailedError, match="403"):
        execute(cluster, namespace, "reader", READ_API, f"/api/v1/namespaces/{namespace}/secrets")


def test_gpus_are_counted_by_the_scheduler(cluster: Cluster, namespace: str) -> None:
    cluster.apply(documents(pod("all-eight", namespace, gpus=8, kind="NVIDIA-L4")))
    wait_until_ready(cluster, namespace, "all-eight")

    cluster.apply(documents(pod("one-more", namespace, gpus=1, kind="NVIDIA-L4")))

    cluster.kubectl(
        *("wait", "--namespace", namespace, "pod/one-more", "--timeout=60s"),
        "--for=jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}=Unschedulable",
    )
    (waiting,) = items(cluster, "pods/one-more", "--namespace", namespace)
    assert "Insufficient nvidia.com/gpu" in waiting["status"]["conditions"][0]["message"]


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES.keys())
def test_images_start_without_root_on_a_read_only_disk(
    cluster: Cluster, namespace: str, image: str
) -> None:
    version = pod("version", namespace, node="l4-0", image=image, command=["hetrl", "--version"])
    version["spec"]["restartPolicy"] = "Never"
    version["spec"]["containers"][0]["securityContext"] |= {"readOnlyRootFilesystem": True}
    cluster.apply(documents(version))

    cluster.kubectl(
        *("wait", "--namespace", namespace, "pod/version", "--timeout=120s"),
        "--for=jsonpath={.status.phase}=Succeeded",
    )
    assert "hetrl" in cluster.kubectl("logs", "version", "--namespace", namespace)


def test_operator_image_is_at_most_250_megabytes() -> None:
    assert build_images().compressed_bytes(IMAGES["operator"]) <= 250e6


def test_fake_nodes_take_pods_and_a_second_cluster_stands_beside() -> None:
    with (
        Cluster.start(name=f"left-{os.getpid()}", fake_nodes=evenly(12)) as left,
        Cluster.start(name=f"right-{os.getpid()}", fake_nodes=evenly(3)) as right,
    ):
        for cluster in (left, right):
            cluster.kubectl("create", "deployment", "load", "--image=none", "--replicas=5")
            cluster.kubectl("rollout", "status", "deployment/load", "--timeout=60s")

        assert len(items(left, "nodes")) == 12
        assert len(items(right, "nodes")) == 3
        left.kubectl("delete", "deployment", "load")
        assert len(items(right, "deployments")) == 1


def test_fake_node_restores_lost_status_but_keeps_reasons() -> None:
    with Cluster.start(name=f"spoilt-{os.getpid()}", fake_nodes=evenly(3)) as cluster:
        for name in ("waits", "lost"):
            cluster.kubectl("run", name, "--image=none")
            wait_until_ready(cluster, "default", name)
        waits = {"name": "waits", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
        waits |= {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}

        say_not_ready(cluster, "waits", [waits])
        say_not_ready(cluster, "lost", [])

        wait_until_ready(cluster, "default", "lost")
        (found,) = items(cluster, "pod", "waits")
        assert condition(found, "Ready") == "False"


def test_stopped_cluster_leaves_nothing_behind() -> None:
    with Cluster.start(name=f"brief-{os.getpid()}", nodes=("l4",)) as cluster:
        assert cluster.state is not None
        state = cluster.state
        cluster.apply(documents(pod("sleeper", "default", node="l4-0")))
        wait_until_ready(cluster, "default", "sleeper")
        assert traces(state)

    assert traces(state) == []


def test_cluster_whose_owner_was_killed_is_swept_away() -> None:
    name = f"orphan-{os.getpid()}"
    program = f"""
from e2e.cluster import Cluster
Cluster.start(name={name!r}, nodes=("l4",))
print("started", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "started\n"
        state = find(name)
        assert state is not None
        assert traces(state)
        owner.send_signal(signal.SIGKILL)

    sweep()

    assert traces(state) == []


def traces(state: ClusterState) -> list[str]:
    """Return what this machine still knows of a cluster."""
    folders = [state.folder, Path("/sys/class/net", state.slot.bridge)]
    cgroups = Path("/sys/fs/cgroup").glob(f"**/hetrl-{state.name}-*")
    found = [str(path) for path in (*folders, *cgroups) if path.exists()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            mounts = (process / "mounts").read_text()
        except OSError:
            continue  # It ended while we looked.
        if str(state.folder) in command or str(state.folder) in mounts:
            found.append(command)
    return found


def items(cluster: Cluster, *what: str) -> list[dict[str, Any]]:
    found = json.loads(cluster.kubectl("get", *what, "--output=json"))
    return list(found["items"]) if found["kind"].endswith("List") else [found]


def condition(thing: dict[str, Any], kind: str) -> str:
    return next(str(c["status"]) for c in thing["status"]["conditions"] if c["type"] == kind)


def wait_until_ready(cluster: Cluster, namespace: str, *pods: str) -> None:
    names = [f"pod/{name}" for name in pods]
    condition = "--for=condition=Ready"
    cluster.kubectl("wait", condition, "--namespace", namespace, *names, "--timeout=120s")


def say_not_ready(cluster: Cluster, pod: str, containers: Sequence[Mapping[str, Any]]) -> None:
    status = {
        "containerStatuses": containers,
        "conditions": [{"type": "Ready", "status": "False"}],
    }
    cluster.kubectl(
        "patch", "pod", pod, "--subresource=status", "-p", json.dumps({"status": status})
    )


def execute(cluster: Cluster, namespace: str, pod: str, program: str, *arguments: str) -> str:
    command = ["python3", "-c", program, *arguments]
    return cluster.kubectl("exec", "--namespace", namespace, pod, "--", *command)


def documents(*objects: dict[str, Any]) -> str:
    return str(yaml.safe_dump_all(objects))


def service(name: str, namespace: str, *, cluster_ip: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"selector": {"app": "pages"}, "ports": [{"port": 8000}]}
    if cluster_ip:
        spec |= {"clusterIP": cluster_ip, "publishNotReadyAddresses": True}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def pod(
    name: str,
    namespace: str,
    *,
    node: str = "",
    kind: str = "",
    gpus: int = 0,
    image: str = IMAGES["operator"],
    command: Sequence[str] = ("sleep", "600"),
    labels: Mapping[str, str] = MappingProxyType({"app": "pages"}),
    account: str = "default",
) -> dict[str, Any]:
    """Build a pod that the restricted Pod Security Standard accepts."""
    wanted = {"kubernetes.io/hostname": node, "nvidia.com/gpu.product": kind}
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "resources": {"limits": {"nvidia.com/gpu": gpus}} if gpus else {},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {
        "hostname": name,
        "subdomain": "peers",
        "serviceAccountName": account,
        "nodeSelector": {label: value for label, value in wanted.items() if value},
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
