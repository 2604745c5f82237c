"""Machines that a job cannot use are left out, without loss."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import PoolSpec, ResourcesSpec
from hetrl_core.plan.plan import Plan
from hetrl_planner import plan_job
from hetrl_planner.plan_job import plan
from hetrl_planner.problem.usable_machines import usable_machines
from tests.builders import a_fleet, a_job, both

LARGE = a_fleet(a100_80=80, l4=80)


def sizes(fleet: ClusterSnapshot) -> list[tuple[str, int]]:
    return [(each.gpu_kind, each.num_gpus) for each in fleet.machines]


@pytest.mark.parametrize(
    ("resources", "left"),
    [
        (ResourcesSpec(), [("A100-80GB", 8)] * 10 + [("L4", 8)] * 10),
        (ResourcesSpec(max_gpus=4), [("A100-80GB", 4), ("L4", 4)]),
        (ResourcesSpec(max_gpus=9), [("A100-80GB", 8)] * 9 + [("L4", 8)] * 9),
    ],
)
def test_job_of_few_gpus_needs_few_machines_of_a_kind(
    resources: ResourcesSpec, left: list[tuple[str, int]]
) -> None:
    assert sizes(usable_machines(LARGE, resources)) == left


def test_pools_limit_narrows_its_machines_alone() -> None:
    fleet = both(a_fleet(a100_80=16), a_fleet(l4=16))
    pools = (PoolSpec(name="edge", max_gpus=2),)
    in_pool = ClusterSnapshot(
        gpu_kinds=fleet.gpu_kinds,
        machines=tuple(
            type(each)(
                name=each.name,
                gpu_kind=each.gpu_kind,
                num_gpus=each.num_gpus,
                pool="edge" if each.gpu_kind == "L4" else "",
            )
            for each in fleet.machines
        ),
    )

    left = usable_machines(in_pool, ResourcesSpec(pools=pools))

    assert sizes(left) == [("A100-80GB", 8), ("A100-80GB", 8), ("L4", 2)]


def test_smallest_machine_that_is_large_enough_is_left() -> None:
    fleet = both(a_fleet(a100_80=8), a_fleet(a100_80=5, region="eu", gpus_per_machine=5))
    parts = both(
        a_fleet(h100=8), ClusterSnapshot(gpu_kinds=fleet.gpu_kinds, machines=fleet.machines)
    )

    left = usable_machines(parts, ResourcesSpec(max_gpus=5))

    assert [each.name for each in left.machines] == ["eu-a100-80gb-0", "a100-80gb-0", "h100-80gb-0"]


@pytest.mark.slow
@settings(max_examples=6)
@given(
    free=st.lists(st.integers(1, 8), min_size=1, max_size=6),
    more=st.lists(st.integers(1, 8), max_size=4),
    max_gpus=st.integers(2, 5),
)
def test_plan_of_a_narrowed_fleet_is_as_fast(
    free: list[int], more: list[int], max_gpus: int
) -> None:
    """Phase 1 alone, which counts machines exactly, on both."""
    fleet = both(_machines("L4", free), _machines("A100-80GB", more))
    job = a_job("Qwen3-0.6B", max_gpus=max_gpus, max_prompt_tokens=64, max_response_tokens=64)

    few = plan(fleet, job, evaluations=0, runnable_only=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_job, "usable_machines", lambda whole, _: whole)
        all_ = plan(fleet, job, evaluations=0, runnable_only=True)

    assert isinstance(few, Plan) is isinstance(all_, Plan)
    if isinstance(few, Plan) and isinstance(all_, Plan):
        fast, slow = few.prediction.step_seconds, all_.prediction.step_seconds
        assert fast <= slow * (1 + 1e-6)


def _machines(kind: str, free: list[int]) -> ClusterSnapshot:
    parts = a_fleet(**{"l4" if kind == "L4" else "a100_80": 8})
    return ClusterSnapshot(
        gpu_kinds=parts.gpu_kinds,
        machines=tuple(
            type(parts.machines[0])(name=f"{kind.lower()}-{i}", gpu_kind=kind, num_gpus=n)
            for i, n in enumerate(free)
        ),
    )
