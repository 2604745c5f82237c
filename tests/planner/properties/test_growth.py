"""One more GPU, or a faster link, never makes a plan worse by more than its gap."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec, MinimiseCost
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_planner.explain.bound import bound_on
from hetrl_planner.phase1.space import space_of
from hetrl_planner.problem.goals import goal_of
from hetrl_planner.problem.usable_machines import usable_machines
from tests.planner.properties.cases import FLEETS, JOBS, SMALL_FLEETS, PlanCase

Growth = Callable[[ClusterSnapshot, int], ClusterSnapshot]
"""A fleet with more of something; the number says of what."""


def with_one_more_gpu(fleet: ClusterSnapshot, number: int) -> ClusterSnapshot:
    """A fleet with a GPU more in one machine, or beside them in a machine of its own."""
    chosen = fleet.machines[number % len(fleet.machines)]
    if number % 2:
        alone = replace(chosen, name="more", num_gpus=1)
        return replace(fleet, machines=(*fleet.machines, alone))
    grown = replace(chosen, num_gpus=chosen.num_gpus + 1)
    return replace(
        fleet, machines=tuple(grown if each is chosen else each for each in fleet.machines)
    )


def with_a_faster_link(fleet: ClusterSnapshot, number: int) -> ClusterSnapshot:
    chosen = fleet.links[number % len(fleet.links)]
    faster = replace(chosen, bytes_per_second=4 * chosen.bytes_per_second)
    return replace(fleet, links=tuple(faster if each is chosen else each for each in fleet.links))


GROWTHS = st.sampled_from([with_one_more_gpu, with_a_faster_link])


@pytest.mark.slow
@settings(max_examples=3)
@given(fleet=SMALL_FLEETS, job=JOBS, grown=GROWTHS, number=st.integers(0, 7))
def test_larger_fleet_is_not_worse(
    fleet: ClusterSnapshot, job: JobSpec, grown: Growth, number: int
) -> None:
    is_not_worse_with_more(fleet, job, grown(fleet, number))


@pytest.mark.slow
@settings(max_examples=8)
@given(fleet=FLEETS, job=JOBS, grown=GROWTHS, number=st.integers(0, 7))
def test_larger_fleet_is_not_worse_for_many_jobs(
    fleet: ClusterSnapshot, job: JobSpec, grown: Growth, number: int
) -> None:
    is_not_worse_with_more(fleet, job, grown(fleet, number))


def is_not_worse_with_more(fleet: ClusterSnapshot, job: JobSpec, more: ClusterSnapshot) -> None:
    poor, rich = PlanCase(fleet, job).plan(), PlanCase(more, job).plan()
    if isinstance(poor, Infeasible):
        return
    assert isinstance(rich, Plan), rich
    assert poor.gap is not None
    assert rich.gap is not None
    before, after = value(poor, job), value(rich, job)
    assert after * (1 - rich.gap) <= before * (1 + 1e-6)
    # The optimum is not worse either. A bound holds for plans no slower than the one found, so
    # both are computed for the step time of the plan on the smaller fleet.
    bound = bound_of(more, job, window_seconds=poor.prediction.step_seconds)
    assert bound <= before * (1 - poor.gap) * (1 + 1e-6)


def bound_of(fleet: ClusterSnapshot, job: JobSpec, *, window_seconds: float) -> float:
    """The bound on the value of all plans for a fleet that are no slower than a window."""
    usable = usable_machines(fleet, job.resources)
    known = bound_on(
        space_of(usable, job, runnable_only=False), goal_of(job), window_seconds=window_seconds
    )
    assert known
    return known.value


def value(found: Plan, job: JobSpec) -> float:
    """What the goal makes small."""
    if isinstance(job.planning.objective, MinimiseCost):
        # Auto counts a cent for each GPU, so that none is taken idle.
        return found.prediction.dollars_per_hour + 0.01 * found.num_gpus
    return found.prediction.step_seconds
