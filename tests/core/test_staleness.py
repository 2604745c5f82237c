"""The staleness rule against the vectors that AReaL's own tests hold for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.staleness import Ledger, StalenessBound, staleness

counts = st.integers(min_value=0, max_value=10_000)


@pytest.mark.parametrize(
    ("max_concurrent", "batch_size", "max_staleness", "ledger", "expected"),
    [
        pytest.param(10, 4, 2, (0, 0, 0), 10, id="workers bind at the start"),
        pytest.param(100, 32, 10, (0, 0, 0), 100, id="workers bind under a loose bound"),
        pytest.param(5, 2, 10, (0, 0, 3), 2, id="workers bind while three run"),
        pytest.param(100, 4, 2, (0, 0, 0), 12, id="the bound binds: three batches"),
        pytest.param(1000, 4, 2, (5, 0, 0), 32, id="each version adds a batch"),
        pytest.param(10, 4, 2, (0, 0, 3), 7, id="running work takes places"),
        pytest.param(20, 4, 2, (0, 5, 0), 7, id="accepted work takes places"),
        pytest.param(5, 2, 5, (0, 0, 5), 0, id="every worker is busy"),
        pytest.param(1000, 8, 0, (0, 0, 0), 8, id="on-policy still fills one batch"),
        pytest.param(1000, 8, 0, (5, 0, 0), 48, id="on-policy at version five"),
        pytest.param(10, 1, 2, (0, 0, 0), 3, id="a batch of one"),
        pytest.param(0, 0, 0, (0, 0, 0), 1, id="no workers and no batch count as one"),
        pytest.param(10000, 64, 10, (1_000_000, 0, 0), 10000, id="workers bind a million on"),
        pytest.param(20, 8, 3, (0, 15, 0), 17, id="five of twenty rejected gave places back"),
        pytest.param(100, 8, 3, (0, 30, 0), 2, id="slow consumption uses the bound up"),
        pytest.param(32, 16, 2, (1, 14, 0), 32, id="after the first version of a run"),
        pytest.param(50, 32, 5, (0, 80, 0), 50, id="a burst that was digested"),
        pytest.param(1000, 32, 5, (0, 0, 0), 192, id="six batches at version zero"),
        pytest.param(1000, 32, 5, (1, 0, 0), 224, id="seven at version one"),
        pytest.param(1000, 32, 5, (10, 0, 0), 512, id="sixteen at version ten"),
        pytest.param(1000, 32, 5, (100, 0, 0), 1000, id="workers bind at version a hundred"),
        pytest.param(1000, 32, 5, (1000, 0, 0), 1000, id="workers bind at version a thousand"),
        pytest.param(1000, 16, 2, (5, 80, 0), 48, id="recovered at five with its batches"),
        pytest.param(1000, 16, 2, (10, 160, 0), 48, id="recovered at ten with its batches"),
        pytest.param(1000, 16, 2, (50, 800, 0), 48, id="recovered at fifty with its batches"),
        # AReaL's counts go below zero here; ours say how many may still be leased.
        pytest.param(3, 2, 1, (0, 0, 10), 0, id="more running than there are workers"),
        pytest.param(50, 32, 5, (0, 0, 100), 0, id="a burst beyond the workers"),
        pytest.param(10, 4, 0, (0, 4, 3), 0, id="a capacity below zero is none"),
    ],
)
def test_capacity_is_what_areal_computes(
    max_concurrent: int,
    batch_size: int,
    max_staleness: int,
    ledger: tuple[int, int, int],
    expected: int,
) -> None:
    version, accepted, running = ledger
    bound = StalenessBound(max_staleness=max_staleness)

    capacity = bound.capacity(
        Ledger(version=version, accepted=accepted, running=running),
        worker_version=version,
        batch_size=batch_size,
        max_concurrent=max_concurrent,
    )

    assert capacity == expected


@pytest.mark.parametrize("step", [1, 2, 7])
@pytest.mark.parametrize("eta", [0, 1, 4])
def test_capacity_ends_where_skyrls_bound_does(eta: int, step: int) -> None:
    # SkyRL: accepted + running <= (S + step)·B, and global step `step` trains version step - 1.
    bound, batch_size = StalenessBound(max_staleness=eta), 16
    promised = (eta + step) * batch_size

    for accepted in (0, batch_size, promised - 1, promised):
        ledger = Ledger(version=step - 1, accepted=accepted, running=0)
        capacity = bound.capacity(
            ledger, worker_version=step - 1, batch_size=batch_size, max_concurrent=10_000
        )
        assert capacity == promised - accepted


@pytest.mark.parametrize(
    ("step", "eta", "oldest"),
    [(1, 0, 0), (9, 8, 0), (10, 8, 1), (20, 1, 18)],
    ids=["the first step", "still the base model", "one version later", "one step behind"],
)
def test_oldest_version_of_use_is_prime_rls(step: int, eta: int, oldest: int) -> None:
    # prime-rl keeps what was dispatched at version (step - 1) - S or later.
    bound, version = StalenessBound(max_staleness=eta), step - 1
    nothing_buffered = Ledger(version=version, accepted=version * 16, running=0)

    of_use = [
        at
        for at in range(version + 1)
        if bound.capacity(nothing_buffered, worker_version=at, batch_size=16, max_concurrent=10_000)
    ]

    assert min(of_use) == oldest
    assert oldest == max(0, bound.oldest_useful_version(nothing_buffered, batch_size=16))
    assert of_use == [at for at in range(version + 1) if bound.admits(version - at)]


@given(
    eta=st.integers(0, 20),
    worker_version=st.integers(0, 200),
    behind=st.integers(0, 30),
    accepted=counts,
    running=counts,
)
def test_leased_trajectory_is_not_too_old_for_its_batch(
    eta: int, worker_version: int, behind: int, accepted: int, running: int
) -> None:
    bound, version = StalenessBound(max_staleness=eta), worker_version + behind
    ledger = Ledger(version=version, accepted=version * 16 + accepted, running=running)

    capacity = bound.capacity(
        ledger, worker_version=worker_version, batch_size=16, max_concurrent=10_000
    )

    ahead = ledger.accepted + running
    batches = [number // 16 for number in range(ahead, ahead + capacity)]
    assert all(bound.admits(trained_by - worker_version) for trained_by in batches)
    next_batch = (ahead + capacity) // 16
    assert not bound.admits(next_batch - worker_version) or capacity == 10_000 - running


@pytest.mark.parametrize(
    ("worker_version", "running", "capacity"),
    [(5, 0, 48), (3, 0, 16), (3, 15, 1), (3, 16, 0), (4, 16, 16), (2, 0, 0), (6, 0, 48)],
    ids=[
        "as new as the trainer",
        "at the bound, and the batch that may use it is open",
        "the last place of that batch",
        "that batch is full",
        "a version later, the next batch is open",
        "one version too old",
        "weights that the trainer is about to announce",
    ],
)
def test_capacity_fits_the_batches_that_may_use_a_workers_weights(
    worker_version: int, running: int, capacity: int
) -> None:
    bound = StalenessBound(max_staleness=2)
    ledger = Ledger(version=5, accepted=5 * 16, running=running)

    assert capacity == bound.capacity(
        ledger, worker_version=worker_version, batch_size=16, max_concurrent=10_000
    )


def test_interrupted_trajectory_is_as_old_as_its_oldest_token() -> None:
    assert staleness([3, 3, 4, 5], version=5) == 2


def test_trajectory_one_step_too_old_is_refused() -> None:
    # NeMo-RL's case: of age 1, version 10 is usable at 10 and 11, not at 12.
    bound = StalenessBound(max_staleness=1)

    assert [bound.admits(staleness([10], version=at)) for at in (10, 11, 12)] == [True, True, False]


def test_token_from_the_future_is_an_error() -> None:
    with pytest.raises(ValueError, match="sampled by version 6, after version 5"):
        staleness([4, 6], version=5)


def test_empty_trajectory_has_no_staleness() -> None:
    with pytest.raises(ValueError, match="no staleness"):
        staleness([], version=5)


def test_bound_below_zero_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match="maxStaleness must be >= 0, got -1"):
        StalenessBound(max_staleness=-1)


@pytest.mark.parametrize("name", ["version", "accepted", "running"])
def test_count_below_zero_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be >= 0, got -1"):
        Ledger(**{"version": 0, "accepted": 0, "running": 0, name: -1})
