import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.fleet.snapshot import Machine
from hetrl_core.job.spec import PoolSpec, ResourcesSpec
from hetrl_core.plan.plan import Parallelism
from hetrl_planner.layout.fit.splits import Split
from hetrl_planner.phase1.placement import FreeBlocks
from hetrl_planner.problem.sites import SHARE_SIZES, Site, sites
from tests.builders import a_fleet, a_kind, both, machines_of


def a_site(*sizes: int) -> Site:
    return Site(
        kind=a_kind("L4"),
        region="local",
        pool="",
        machines=tuple(
            Machine(name=f"m{number}", gpu_kind="L4", num_gpus=size)
            for number, size in enumerate(sorted(sizes, reverse=True))
        ),
    )


@pytest.mark.parametrize(
    ("size", "capacity"),
    [(1, 15), (2, 14), (4, 12), (8, 8)],
    ids=str,
)
def test_capacity_counts_whole_blocks_on_each_machine(size: int, capacity: int) -> None:
    assert a_site(8, 6, 1).capacity(size) == capacity


@given(
    machines=st.lists(st.integers(1, 16), min_size=1, max_size=5),
    wanted=st.lists(st.sampled_from(SHARE_SIZES), max_size=40),
)
def test_shares_fit_in_any_order_exactly_when_counted(
    machines: list[int], wanted: list[int]
) -> None:
    # The promise that lets the MILP count instead of pack.
    site = a_site(*machines)
    fits = all(
        sum(each for each in wanted if each >= size) <= site.capacity(size) for size in SHARE_SIZES
    )

    free, used = FreeBlocks(site.machines), dict.fromkeys((each.name for each in site.machines), 0)
    try:
        for each in wanted:
            used[free.take(each)] += each
        placed = True
    except ValueError:
        placed = False

    assert placed == fits
    assert all(used[machine.name] <= machine.num_gpus for machine in site.machines)


def test_replicas_that_follow_each_other_are_neighbours() -> None:
    split = Split(parallelism=Parallelism(tensor=2, stage_layers=(4,)), share_size=2)
    replicas = FreeBlocks(a_site(8, 8).machines).replicas(split, work_shares=[0.25] * 4)
    assert {share.machine for each in replicas for share in each.shares} == {"m0"}


def test_small_share_leaves_large_blocks_whole() -> None:
    free = FreeBlocks(a_site(8, 2).machines)
    assert [free.take(1), free.take(1), free.take(8)] == ["m1", "m1", "m0"]


def test_machines_are_grouped_by_kind_region_and_pool() -> None:
    fleet = both(a_fleet(l4=8, a100=8), a_fleet(l4=16, region="eu"))
    found = sites(fleet, ResourcesSpec())
    assert [(site.kind.name, site.region, site.num_gpus) for site in found] == [
        ("A100-40GB", "local", 8),
        ("L4", "eu", 16),
        ("L4", "local", 8),
    ]


def test_job_with_pools_uses_only_their_machines_at_their_price() -> None:
    fleet = a_fleet(kinds=(a_kind("L4"),))
    machines = [*machines_of("L4", 8, pool="edge"), *machines_of("L4", 8, region="eu")]
    fleet = type(fleet)(gpu_kinds=fleet.gpu_kinds, machines=tuple(machines))
    pool = PoolSpec(name="edge", max_gpus=4, dollars_per_gpu_hour=0.1)
    (site,) = sites(fleet, ResourcesSpec(pools=(pool,)))
    assert (site.pool, site.num_gpus, site.max_gpus) == ("edge", 8, 4)
    assert site.kind.dollars_per_hour == 0.1
