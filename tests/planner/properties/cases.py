"""Fleets and jobs for hypothesis, as planning cases."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link, Machine
from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType, Mode
from hetrl_core.job.spec import JobSpec, MinimiseCost, PoolSpec, ResourcesSpec, RolloutSpec
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_planner.plan_job import plan
from tests.builders import a_job, a_kind

EVALUATIONS = 60
REGIONS = ("east", "west")
POOLS = (PoolSpec(name="cloud", max_gpus=5), PoolSpec(name="edge"))


@dataclass(frozen=True, slots=True)
class PlanCase:
    """A fleet and a job to plan."""

    fleet: ClusterSnapshot
    job: JobSpec
    runnable_only: bool = False

    def plan(self, *, evaluations: int = EVALUATIONS) -> Plan | Infeasible:
        return plan(self.fleet, self.job, evaluations=evaluations, runnable_only=self.runnable_only)


def a_fleet_of(
    machines: list[tuple[str, int, str, str]], *, links: tuple[Link, ...] = ()
) -> ClusterSnapshot:
    return ClusterSnapshot(
        gpu_kinds=tuple(a_kind(kind) for kind in sorted({kind for kind, *_ in machines})),
        machines=tuple(
            Machine(name=f"m{number}", gpu_kind=kind, num_gpus=size, region=region, pool=pool)
            for number, (kind, size, region, pool) in enumerate(machines)
        ),
        links=links,
    )


def machine_lists(
    *, most: int, most_gpus: int
) -> st.SearchStrategy[list[tuple[str, int, str, str]]]:
    one = st.tuples(
        st.sampled_from(["A100-80GB", "L40S", "L4"]),
        st.integers(1, most_gpus),
        st.sampled_from(REGIONS),
        st.sampled_from([pool.name for pool in POOLS]),
    )
    return st.lists(one, min_size=1, max_size=most)


LINKS = st.builds(
    lambda gigabytes, within: (
        Link(
            source="east",
            target="west",
            bytes_per_second=gigabytes * 1e9,
            latency_seconds=0.02,
            egress_dollars_per_gib=0.02,
        ),
        Link(source="east", target="east", bytes_per_second=within * 1e9, latency_seconds=5e-5),
    ),
    st.sampled_from([0.05, 0.5, 5.0]),
    st.sampled_from([1.25, 12.5]),
)
FLEETS = st.builds(a_fleet_of, machine_lists(most=4, most_gpus=4), links=LINKS)
SMALL_FLEETS = st.builds(a_fleet_of, machine_lists(most=2, most_gpus=2), links=LINKS)
ALGORITHMS = st.builds(
    lambda kind, mode, batch, minibatches, kl: AlgorithmSpec(
        type=kind,
        mode=mode,
        max_staleness=0 if mode is Mode.SYNC else 2,
        global_batch_size=batch,
        minibatches=minibatches,
        kl_coefficient=kl,
    ),
    st.sampled_from(AlgorithmType),
    st.sampled_from(Mode),
    st.sampled_from([16, 256]),
    st.sampled_from([1, 2]),
    st.sampled_from([0.0, 0.01]),
)
JOBS = st.builds(
    a_job,
    st.sampled_from(["Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B"]),
    algorithm=ALGORITHMS,
    max_response_tokens=st.sampled_from([256, 4096]),
    objective=st.none() | st.builds(MinimiseCost, st.sampled_from([0.1, 1.0, 5.0])),
)
LIMITED_JOBS = st.builds(
    lambda job, budget, most, rollout, pools: replace(
        job,
        resources=ResourcesSpec(pools=pools, budget_dollars_per_hour=budget, max_gpus=most),
        rollout=rollout,
    ),
    JOBS,
    st.none() | st.floats(1.5, 30),
    st.none() | st.integers(2, 8),
    st.sampled_from([RolloutSpec(), RolloutSpec(min_replicas=2, max_replicas=3)]),
    st.sampled_from([(), POOLS]),
)


def small(kind: AlgorithmType, mode: Mode, *, seed: int = 1, **changes: object) -> JobSpec:
    algorithm = AlgorithmSpec(type=kind, mode=mode, max_staleness=0 if mode is Mode.SYNC else 2)
    return a_job("Qwen3-0.6B", algorithm=algorithm, seed=seed, **changes)  # type: ignore[arg-type]
