"""Wires a cluster's nodes: a bridge on this machine, a veth into each node, routes between them.

    this machine ── bridge hetrlN ──┬── eth0 of node 0 ── cni0 ── pods of node 0
     API server, CoreDNS            └── eth0 of node 1 ── cni0 ── pods of node 1

This machine can reach nodes, pods and services by address; nothing can reach the outside.
"""

from __future__ import annotations

import json
from pathlib import Path

from e2e.cluster.addresses import Slot
from e2e.cluster.namespaces import Namespaces, run

PREFIX_LENGTH = 24


def create_bridge(slot: Slot) -> None:
    """Create the cluster's bridge, with this machine's address on it."""
    run(["ip", "link", "add", slot.bridge, "type", "bridge"])
    run(["ip", "address", "add", f"{slot.host_ip}/{PREFIX_LENGTH}", "dev", slot.bridge])
    run(["ip", "link", "set", slot.bridge, "up"])


def delete_bridge(slot: Slot) -> None:
    """Delete the bridge and with it this machine's routes; fine when there is none."""
    if Path("/sys/class/net", slot.bridge).exists():
        run(["ip", "link", "delete", slot.bridge])


def connect(slot: Slot, index: int, namespaces: Namespaces, *, nodes: int) -> None:
    """Give the node `index` its address, and routes to the pods of the other `nodes`."""
    host_end = f"{slot.bridge}n{index}"
    peer = ["peer", "name", "eth0", "netns", str(namespaces.init_pid)]
    run(["ip", "link", "add", host_end, "type", "veth", *peer])
    run(["ip", "link", "set", host_end, "master", slot.bridge, "up"])
    address = f"{slot.node_ip(index)}/{PREFIX_LENGTH}"
    namespaces.run("ip", "address", "add", address, "dev", "eth0")
    namespaces.run("ip", "link", "set", "lo", "up")
    namespaces.run("ip", "link", "set", "eth0", "up")
    namespaces.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    for other in range(nodes):
        if other != index:
            route = [str(slot.pod_network(other)), "via", slot.node_ip(other)]
            namespaces.run("ip", "route", "add", *route)
    # kube-proxy rewrites a packet to a service only after the kernel has found a route for it.
    namespaces.run("ip", "route", "add", str(slot.service_network), "via", slot.host_ip)
    run(["ip", "route", "add", str(slot.pod_network(index)), "via", slot.node_ip(index)])
    if index == 0:
        run(["ip", "route", "add", str(slot.service_network), "via", slot.node_ip(index)])


def write_cni_config(folder: Path, slot: Slot, index: int) -> None:
    """Write the pod network of the node `index`."""
    addresses = {
        "type": "host-local",
        "dataDir": str(folder / "addresses"),
        "ranges": [[{"subnet": str(slot.pod_network(index))}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    folder.mkdir(parents=True, exist_ok=True)
    content = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
    (folder / "pods.conflist").write_text(json.dumps(content, indent=1))
