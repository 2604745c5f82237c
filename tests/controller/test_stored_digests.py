"""Digests that clusters keep: a plan or a pod of the release before must not look changed."""

from dataclasses import replace

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind, Link, Machine
from hetrl_core.plan.plan import Recompute, Sharding, TrainingMode
from hetrl_operator.planning.fleet_digest import fleet_digest
from hetrl_operator.planning.inputs import planning_key
from hetrl_operator.render.restart import restart_hash
from tests.controller.deployments import a_deployment
from tests.controller.values import a_job, a_plan, parsed_of

A100 = GpuKind(
    name="A100-80GB",
    memory_bytes=80 << 30,
    bf16_flops=312e12,
    hbm_bytes_per_second=2.0e12,
    intra_node_bytes_per_second=300e9,
    dollars_per_hour=2.5,
)
QUOTED = GpuKind(
    name="it's",
    memory_bytes=24 << 30,
    bf16_flops=121e12,
    hbm_bytes_per_second=300e9,
    intra_node_bytes_per_second=32e9,
    dollars_per_hour=0,
    memory_efficiency=0.5,
)
EAST = Machine(
    name="a100-0", gpu_kind="A100-80GB", num_gpus=8, region="east", zone="east-1a", pool="train"
)
WEST = Machine(name="l4-0", gpu_kind="it's", num_gpus=4, region="west")
LINK = Link(
    source="east",
    target="west",
    bytes_per_second=1.25e9,
    latency_seconds=0.06,
    egress_dollars_per_gib=0.02,
)
UNUSED = Link(source="x", target="y", bytes_per_second=1, latency_seconds=0)


@pytest.mark.parametrize(
    ("machines", "digest"),
    [
        pytest.param((), "4f6c4b2d6a95ece03b52db2c23a94748", id="none"),
        pytest.param(
            (replace(EAST, region="local", zone="", pool=""),),
            "f390eef810ed916572623f5dc9754053",
            id="one",
        ),
        pytest.param((EAST, WEST), "68f42e72c9b74d7819813521163803ba", id="two-regions"),
    ],
)
def test_fleet_digest_is_that_of_release_0_2_0(machines: tuple[Machine, ...], digest: str) -> None:
    fleet = ClusterSnapshot(gpu_kinds=(A100, QUOTED), machines=machines, links=(LINK, UNUSED))
    assert fleet_digest(fleet) == digest


EVERY_PLANNING_FIELD = {
    "algorithm": {"type": "PPO", "maxStaleness": 3, "groupSize": 2, "globalBatchSize": 64},
    "resources": {"pools": [{"name": "train", "gpuProduct": "A100-80GB", "maxGPUs": 4}]},
    "rollout": {"minReplicas": 2, "maxReplicas": 6},
    "planning": {"strategy": "ILP", "timeBudgetSeconds": 5, "seed": 2},
}


def with_python_reward(**limits: float) -> dict[str, object]:
    """Fields of a spec whose reward is a function, as 0.2.0 stores it."""
    source = {"claim": {"name": "code", "path": "reward.py"}}
    prompts = {"claim": {"name": "data", "path": "train.jsonl"}}
    return {
        "data": {"prompts": prompts, "reward": "python", "python": {"source": source, **limits}}
    }


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        pytest.param({}, "213d38122e9250e7bb8d03dcbc4153b6", id="defaults"),
        pytest.param(
            EVERY_PLANNING_FIELD, "e0fe6772d9fa7b2b2256f45751aea590", id="every-planning-field"
        ),
        pytest.param(
            with_python_reward(timeoutSeconds=2.0),
            "d34f8448ebe4966c8cb6c9d7ba2742de",
            id="time-limit-by-a-former-default",
        ),
        pytest.param(
            with_python_reward(timeoutSeconds=60),
            "df126a0465bd03dc9a2e283a2f60b3e6",
            id="time-limit-of-the-present-default",
        ),
        pytest.param(
            with_python_reward(timeoutSeconds=5, cpuSeconds=3),
            "7264aa28a7e03c39bd5eadccdce17acb",
            id="time-limits-of-a-user",
        ),
    ],
)
def test_planning_key_is_that_of_release_0_2_0(spec: dict[str, object], key: str) -> None:
    assert planning_key(parsed_of(a_job(**spec))) == key


def test_restart_hash_of_split_trainers_matches_release_0_2_0() -> None:
    plan = a_plan(trainers=2, critics=("l4-6", "l4-7"))
    mode = TrainingMode(recompute=Recompute.NONE, sharding=Sharding.OPTIMIZER)
    trained = replace(plan.groups[0], training_mode=mode)
    deployment = a_deployment(plan=replace(plan, groups=(trained, *plan.groups[1:])))
    hashes = {each.name: restart_hash(deployment, each) for each in deployment.sets}
    assert hashes == {
        "coordinator": "a1bf7ef72ac2b0ec",
        "rollout-l4-0": "b27fb1560338935b",
        "trainer-a100-80gb-0": "60ec4d5e9473270e",
        "trainer-l4-0": "60ec4d5e9473270e",
    }
