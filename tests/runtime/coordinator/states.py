"""States of a run as tests need them, and one worker's and the trainer's usual moves."""

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_runtime.coordinator.rules.commits import Committed
from hetrl_runtime.coordinator.rules.state import RunState, WorkerBehind
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import Outcome, ResumePoint
from tests.runtime.trajectories import a_trajectory, delivered

WORKER = "rollout-l4-0-0"
OTHER = "rollout-l4-0-1"


def a_state(
    *,
    max_staleness: int = 1,
    group_size: int = 2,
    batch_size: int = 4,
    max_concurrent: int = 100,
    checks_consumption: bool = True,
    resume: ResumePoint | None = None,
) -> RunState:
    """A run that has just begun its first epoch."""
    state = RunState(
        AlgorithmSpec(
            max_staleness=max_staleness, group_size=group_size, global_batch_size=batch_size
        ),
        max_concurrent=max_concurrent,
        lease_seconds=20.0,
        checks_consumption=checks_consumption,
    )
    state.begin(resume or ResumePoint(), epoch=1)
    return state


def lease(
    state: RunState, count: int, *, process: str = WORKER, version: int | None = None
) -> list[TrajectoryId]:
    """Lease to a worker that is, by default, as new as the trainer."""
    worker_version = state.version if version is None else version
    leases = state.lease(process, worker_version=worker_version, max_trajectories=count, now=0.0)
    assert not isinstance(leases, WorkerBehind)
    return [identity for lease in leases for identity in lease.ids]


def deliver(state: RunState, identity: TrajectoryId, *versions: int, process: str = WORKER) -> str:
    """Deliver a trajectory sampled by some versions, by default the current one."""
    return state.accept(
        delivered(a_trajectory(*identity, versions=versions or (state.version,), process=process))
    )


def step(state: RunState) -> list[TrajectoryId]:
    """Generate, hand out and commit one batch."""
    while not state.batch():
        for identity in lease(state, 4):
            assert deliver(state, identity) is Outcome.ACCEPTED
    ids = [each.id for each in state.batch()]
    assert isinstance(state.commit(state.version + 1, consumed=ids), Committed)
    return ids
