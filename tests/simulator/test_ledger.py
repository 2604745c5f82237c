"""Capacity of the simulator's ledger, compared with the bound that it evaluates only rarely."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.staleness import Ledger, StalenessBound, staleness
from hetrl_planner.simulator.coordination.ledger import RunLedger
from hetrl_planner.simulator.events.trajectory import PromptGroup, Trajectory
from hetrl_planner.simulator.parts import assemble
from tests.simulator.pipelines import a_pipeline

VERSIONS = st.integers(min_value=0, max_value=50)
COUNTS = st.integers(min_value=0, max_value=80)


def with_counts(ledger: RunLedger, *, accepted: int, running: int) -> None:
    replica = assemble(a_pipeline(), np.random.default_rng(1)).groups[0][0]
    held = [Trajectory(PromptGroup(), ledger.version, 1) for _ in range(accepted + running)]
    for trajectory in held:
        ledger.lease(trajectory, replica)
    for trajectory in held[:accepted]:
        ledger.accept(trajectory)


@given(
    eta=st.integers(min_value=0, max_value=4),
    version=VERSIONS,
    held=st.tuples(COUNTS, COUNTS),
    behind=st.integers(min_value=0, max_value=5),
    max_concurrent=st.one_of(st.none(), st.integers(min_value=1, max_value=100)),
)
def test_capacity_equals_the_bounds_at_every_version_and_load(
    eta: int, version: int, held: tuple[int, int], behind: int, max_concurrent: int | None
) -> None:
    accepted, running = held
    pipeline = a_pipeline(batch=32, eta=eta, max_concurrent=max_concurrent)
    ledger = RunLedger(pipeline)
    ledger.move_to(version)
    with_counts(ledger, accepted=accepted, running=running)
    worker_version = max(0, version - behind)
    assert ledger.capacity_of(worker_version) == StalenessBound(max_staleness=eta).capacity(
        Ledger(version=version, accepted=version * 32 + accepted, running=running),
        worker_version=worker_version,
        batch_size=32,
        max_concurrent=max_concurrent or pipeline.num_places,
    )


@given(moves=st.lists(VERSIONS, min_size=1, max_size=6))
def test_ages_are_those_of_the_current_version_after_a_rewind(
    moves: list[int],
) -> None:
    ledger = RunLedger(a_pipeline(eta=2))
    for version in moves:
        ledger.move_to(version)
        for oldest in range(max(0, version - 4), version + 1):
            versions = (oldest, version)
            assert ledger.age(versions) == staleness(versions, version=version)
            assert ledger.is_too_old(versions) == (version - oldest > 2)
