"""Topologies that are wrong, and what both who judge them must say of each."""

import pytest

from tests.api.objects import a_topology

INVALID_TOPOLOGIES = [
    pytest.param(a_topology(changes), said, id=name)
    for name, changes, said in [
        (
            "a name of ours for a name of the API's",
            {
                "spec.links": [
                    {"source": "eu", "to": "us", "bandwidthGbps": 1, "latencyMilliseconds": 1}
                ]
            },
            ("spec.links", "source"),
        ),
        (
            "a link to itself",
            {
                "spec.links": [
                    {"from": "eu", "to": "eu", "bandwidthGbps": 1, "latencyMilliseconds": 1}
                ]
            },
            ("spec.links must join two regions",),
        ),
        (
            "no compute capability",
            {"spec.gpuKinds": [{"name": "L4", "computeCapability": 0}]},
            ("spec.gpuKinds", "computeCapability"),
        ),
        (
            "a machine without GPUs",
            {"spec.pools": [{"name": "a", "gpuKind": "L4", "machines": 1, "gpusPerMachine": 0}]},
            ("spec.pools[0].gpusPerMachine", "1"),
        ),
    ]
]
