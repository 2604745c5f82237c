import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_api.load import parse
from hetrl_api.plan.plan import HetRLPlan, PlanSpec
from hetrl_api.plan.ranges import compress, expand
from hetrl_api.plan.to_core import from_plan, to_plan
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_api.validation.rules import parts
from hetrl_core.job.spec import Strategy
from hetrl_core.plan.plan import (
    REPLICATED,
    MemoryUse,
    Parallelism,
    Plan,
    Rejected,
    Replica,
    ReplicaGroup,
    Share,
)
from hetrl_core.task import Task
from tests.api.plans import a_plan_of_10240_gpus, a_prediction
from tests.api.variants import is_leaf, variants

KIB = 1024

numbered = st.builds(
    "{}-{:0{}}".format,
    st.sampled_from(["a100", "l4-eu", "gke-pool-7f2k"]),
    st.integers(0, 1200),
    st.sampled_from([1, 3]),
)
cloud = st.builds("ip-10-0-{}-{}.ec2.internal".format, st.integers(0, 255), st.integers(0, 255))
random = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)
machines = st.lists(st.one_of(numbered, cloud, random), max_size=60)
rates = st.floats(0, 1e9)


@given(names=machines, repeat=st.integers(1, 8))
@pytest.mark.slow
def test_ranges_keep_every_name_and_the_order(names: list[str], repeat: int) -> None:
    repeated = [name for name in names for _ in range(repeat)]

    runs = compress(repeated)

    assert [name for run in runs for name in run.names()] == repeated


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        ([f"a100-{n:03}" for n in range(120)], "a100-[000-119]"),
        (["a100-9", "a100-10", "a100-11"], "a100-[9,10-11]"),
        (["gke-pool-7f2k", "gke-pool-m0x9"], "gke-pool-[7f2k,m0x9]"),
        (["ip-10-0-1-8.ec2.internal", "ip-10-0-1-9.ec2.internal"], "ip-10-0-1-[8-9].ec2.internal"),
        (["worker7", "worker8"], "worker[7-8]"),
        (["solo"], "solo"),
    ],
    ids=["numbered", "without zeros", "random", "cloud", "no dash", "one"],
)
def test_ranges_read_as_people_write_them(names: list[str], pattern: str) -> None:
    (run,) = compress(names)

    assert run.pattern == pattern
    assert list(expand(pattern)) == names


@pytest.mark.parametrize(
    "pattern",
    ["a-[1-", "a-[]", "a]", "a,b", "", "a-[9-1]", "a-[0-999999999]"],
    ids=["open", "empty", "closed", "a comma", "nothing", "backwards", "too far"],
)
def test_malformed_ranges_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="machine range"):
        expand(pattern)


@st.composite
def groups(draw: st.DrawFn) -> ReplicaGroup:
    num_shares = draw(st.integers(1, 3))
    share_gpus = draw(st.lists(st.integers(1, 8), min_size=num_shares, max_size=num_shares))
    replica = st.builds(
        Replica,
        shares=st.tuples(
            *(st.builds(Share, machine=numbered, num_gpus=st.just(gpus)) for gpus in share_gpus)
        ),
        work_share=st.floats(0, 1),
    )
    return ReplicaGroup(
        tasks=draw(st.sampled_from([(Task.ACTOR_TRAINING,), (Task.ACTOR_GENERATION,)])),
        gpu_kind="A100-40GB",
        region="eu",
        parallelism=Parallelism(tensor=1, stage_layers=(18, 18)),
        replicas=tuple(draw(st.lists(replica, min_size=1, max_size=12))),
        concurrency=draw(st.integers(0, 512)),
        samples_per_second=draw(rates),
        memory=MemoryUse(weights_bytes=draw(st.integers(0, 2**40)), kv_cache_bytes=3),
    )


plans = st.builds(
    Plan,
    strategy=st.sampled_from(Strategy),
    groups=st.lists(groups(), min_size=1, max_size=4).map(tuple),
    prediction=st.just(a_prediction()),
    gap=st.none() | st.integers(0, 1000).map(lambda thousandths: thousandths / 1000),
    rejected=st.lists(st.just(Rejected(summary="tp2", reason="slower")), max_size=20).map(tuple),
    ended_by=st.sampled_from(["work", "time"]),
    seed=st.integers(0, 99),
)


@settings(max_examples=50)
@given(plan=plans)
@pytest.mark.slow
def test_plan_survives_its_object_exactly(plan: Plan) -> None:
    text = from_plan(plan).model_dump_json(by_alias=True, exclude_none=True)

    assert to_plan(PlanSpec.model_validate_json(text)) == plan


def test_predictions_are_written_in_as_many_digits_as_one_reads() -> None:
    exact = replace(a_prediction(), step_seconds=1.8043800792530182, dollars_per_hour=12.0)

    plan = a_plan_of_10240_gpus([f"a100-{number}" for number in range(1280)])

    written = from_plan(replace(plan, prediction=exact, gap=1 / 3))

    assert written.prediction.step_seconds == 1.8044
    assert written.prediction.dollars_per_hour == 12.0
    assert written.gap_ratio == 0.33333


def scattered(number: int) -> int:
    """A number that shares no order with its neighbours', as clouds hand out names."""
    return number * 2_654_435_761 % 2**32


@pytest.mark.parametrize(
    "names",
    [
        [f"a100-{n:04}" for n in range(1280)],
        [f"gke-pool-1a2b-{scattered(n):x}" for n in range(1280)],
        [f"gke-pool-1a2b-{scattered(n):x}" for n in range(10_240)],
        [
            f"ip-10-{n % 251}-{scattered(n) % 256}-{n % 256}.eu-west-1.compute.internal"
            for n in range(1280)
        ],
    ],
    ids=["numbered", "random", "random, one GPU each", "scattered over subnets"],
)
@pytest.mark.slow
def test_plan_of_10240_gpus_stays_under_256_kib(names: list[str]) -> None:
    plan = a_plan_of_10240_gpus(names)

    text = from_plan(plan).model_dump_json(by_alias=True, exclude_none=True)

    assert plan.num_gpus == 10_240
    assert len(text) < 256 * KIB
    assert to_plan(PlanSpec.model_validate_json(text)).groups == plan.groups


def a_plan_object(placements: list[dict[str, Any]]) -> HetRLPlan:
    prediction = from_plan(
        Plan(strategy=Strategy.AUTO, groups=(a_group(),), prediction=a_prediction())
    ).model_dump(mode="json", by_alias=True, exclude_none=True)
    prediction["groups"][0]["placements"] = placements
    return parse(
        HetRLPlan,
        {
            "apiVersion": "hetrl.dev/v1alpha1",
            "kind": "HetRLPlan",
            "metadata": {"name": "p"},
            "spec": json.loads(json.dumps(prediction)),
        },
    )


def a_group() -> ReplicaGroup:
    return ReplicaGroup(
        tasks=(Task.ACTOR_TRAINING,),
        gpu_kind="L4",
        region="eu",
        parallelism=Parallelism(tensor=1, stage_layers=(36,)),
        replicas=(Replica(shares=(Share(machine="l4-0", num_gpus=1),)),),
        memory=MemoryUse(weights_bytes=1),
    )


def a_full_spec() -> PlanSpec:
    """The spec of a plan in which every field is set."""
    group = replace(
        a_group(),
        parallelism=Parallelism(tensor=1, stage_layers=(18, 18)),
        replicas=(Replica(shares=(Share(machine="l4-0", num_gpus=2, first_gpu=0),)),),
        stage_sites=(("L4", "eu"), ("A10", "us")),
        training_mode=REPLICATED,
    )
    return from_plan(
        Plan(
            strategy=Strategy.AUTO,
            groups=(group,),
            prediction=a_prediction(),
            gap=0.5,
            rejected=(Rejected(summary="tp2", reason="slower"),),
        )
    )


def plan_of(spec: PlanSpec) -> Plan | None:
    """The plan of a spec; None if the core refuses one of its values."""
    try:
        return to_plan(spec)
    except (TypeError, ValueError):
        return None


def test_fields_of_a_plan_reach_core() -> None:
    spec = a_full_spec()
    reached = {field: plan_of(variant) != plan_of(spec) for field, variant in variants(spec)}

    assert reached.keys() == {
        f"{part.__name__}.{name}"
        for part in parts(PlanSpec)
        for name in part.model_fields
        if is_leaf(part, name)
    }
    assert [field for field, is_reached in reached.items() if not is_reached] == [
        "PlanSpec.num_gpus"  # It follows from the groups.
    ]


@pytest.mark.parametrize(
    ("placements", "said"),
    [
        ([], "must place 1 replicas, got 0"),
        ([{"gpus": [1, 1], "workShare": 1, "runs": [{"machines": "a"}]}], "2 machines for each"),
        ([{"gpus": [1], "workShare": 1, "runs": [{"machines": "a-["}]}], "malformed"),
    ],
    ids=["unbound", "half a replica", "a broken range"],
)
def test_plan_object_that_does_not_add_up_is_refused(
    placements: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        to_plan(a_plan_object(placements).spec)


def test_plan_object_without_gpus_in_a_share_is_refused() -> None:
    with pytest.raises(InvalidObjectError, match=r"gpus\[0\] must be >= 1, got 0"):
        a_plan_object([{"gpus": [0], "workShare": 1, "runs": [{"machines": "a"}]}])
