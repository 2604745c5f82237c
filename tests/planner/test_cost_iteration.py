import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_planner.cost.iteration import (
    Stream,
    generation_window_seconds,
    mean_staleness,
    step_seconds,
)


def a_stream(rate: float, sync: float = 0.0) -> Stream:
    return Stream(samples_per_second=rate, stop_seconds=sync)


def test_streams_add_up() -> None:
    assert generation_window_seconds([a_stream(6), a_stream(2)], batch_size=16) == 2


def test_stream_loses_its_weight_sync_out_of_every_step() -> None:
    # Four seconds to generate sixteen at four a second, and one to fetch the weights.
    assert generation_window_seconds([a_stream(4, sync=1)], batch_size=16) == 5


def test_stream_that_is_always_fetching_contributes_nothing() -> None:
    alone = generation_window_seconds([a_stream(4, sync=1)], batch_size=16)
    beside = generation_window_seconds([a_stream(4, sync=1), a_stream(100, sync=60)], batch_size=16)
    assert beside == alone


def test_generation_without_rollouts_takes_for_ever() -> None:
    assert generation_window_seconds([], batch_size=16) == float("inf")


@given(
    streams=st.lists(st.tuples(st.floats(0.01, 100), st.floats(0, 100)), min_size=1, max_size=6),
    batch=st.integers(1, 4096),
)
def test_exactly_one_batch_is_generated_in_the_window(
    streams: list[tuple[float, float]], batch: int
) -> None:
    window = generation_window_seconds(
        [a_stream(rate, sync) for rate, sync in streams], batch_size=batch
    )
    made = sum(rate * max(0.0, window - sync) for rate, sync in streams)
    assert made == pytest.approx(batch)


def test_synchronous_times_add_up_and_asynchronous_ones_overlap() -> None:
    assert step_seconds(generation_seconds=3, training_seconds=2, is_synchronous=True) == 5
    assert step_seconds(generation_seconds=3, training_seconds=2, is_synchronous=False) == 3


def staleness(*, generation: float, training: float, running: float, bound: int) -> float:
    return mean_staleness(
        step_seconds=max(generation, training),
        generation_seconds=generation,
        training_seconds=training,
        running=running,
        batch_size=100,
        max_staleness=bound,
    )


def test_staleness_reaches_the_bound_where_training_is_slower() -> None:
    assert staleness(generation=1, training=2, running=50, bound=3) == 3


def test_staleness_follows_running_work_where_generation_is_slower() -> None:
    # A hundred places live one step, and half a step passes between consumption and publishing.
    assert staleness(generation=2, training=1, running=100, bound=3) == 1.5


def test_run_on_policy_is_never_stale() -> None:
    assert staleness(generation=2, training=1, running=100, bound=0) == 0


@given(
    generation=st.floats(0.1, 10),
    training=st.floats(0.1, 10),
    running=st.floats(0, 1000),
    bound=st.integers(0, 8),
)
def test_expectation_stays_within_the_bound(
    generation: float, training: float, running: float, bound: int
) -> None:
    found = staleness(generation=generation, training=training, running=running, bound=bound)
    assert 0 <= found <= bound
