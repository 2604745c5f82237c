"""Distributions have the mean, the percentile and the cut that they were asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_planner.problem.lengths import (
    Constant,
    Empirical,
    Lengths,
    Uniform,
    lognormal_of_max,
    lognormal_of_p95,
    lognormal_of_variation,
)

DRAWS = 200_000


@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param(Constant(tokens=70), id="constant"),
        pytest.param(Uniform(min_tokens=10, max_tokens=21), id="uniform"),
        pytest.param(Empirical(tokens=(3, 3, 50)), id="empirical"),
        pytest.param(lognormal_of_max(mean_tokens=512, max_tokens=1024), id="lognormal, max"),
        pytest.param(
            lognormal_of_p95(mean_tokens=2400, p95_tokens=6000, max_tokens=8192),
            id="lognormal, p95",
        ),
        pytest.param(
            lognormal_of_variation(mean_tokens=800, variation=1.5, max_tokens=2000),
            id="lognormal, cut hard",
        ),
    ],
)
def test_draws_have_the_stated_mean(lengths: Lengths) -> None:
    drawn = lengths.draw(np.random.default_rng(1), DRAWS)
    assert sum(drawn) / DRAWS == pytest.approx(lengths.mean_tokens, rel=0.01)
    assert min(drawn) >= 1


def test_log_normal_has_the_requested_percentile_and_cut() -> None:
    lengths = lognormal_of_p95(mean_tokens=2400, p95_tokens=6000, max_tokens=8192)
    drawn = lengths.draw(np.random.default_rng(1), DRAWS)
    assert np.quantile(drawn, 0.95) == pytest.approx(6000, rel=0.02)
    assert max(drawn) == 8192


def test_jobs_log_normal_cuts_one_response_in_a_hundred() -> None:
    drawn = lognormal_of_max(mean_tokens=512, max_tokens=1024).draw(np.random.default_rng(1), DRAWS)
    assert np.mean(np.array(drawn) == 1024) == pytest.approx(0.01, abs=0.002)


@given(mean=st.floats(1, 5000), variation=st.floats(0, 5), room=st.floats(1.0, 50.0))
def test_cut_does_not_move_the_mean(mean: float, variation: float, room: float) -> None:
    most = int(mean * room) + 1
    found = lognormal_of_variation(mean_tokens=mean, variation=variation, max_tokens=most)
    assert found.mean_tokens == pytest.approx(mean, rel=1e-6)
