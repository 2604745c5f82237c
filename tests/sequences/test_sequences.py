"""A sample of what `make proof-sequences` plays whole, and every seed that once broke something."""

from collections.abc import Iterator

import pytest

from e2e.sequences.lane import Lane, lanes
from e2e.sequences.steps import LEAST_STEPS, sequence
from e2e.sequences.verdict import judge

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SAMPLED = (1,)
BROKEN_ONCE = (29, 43, 253)
"""Seeds that once failed: a plan named a node as absent that had come back, a replaced plan counted
as the active one, and a test waited for a spec to run that no fleet can run.
"""


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    with lanes(1, tmp_path_factory.mktemp("sequences")) as (found,):
        yield found


@pytest.mark.parametrize("seed", [*SAMPLED, *BROKEN_ONCE])
def test_job_recovers_from_a_sequence_like_a_fresh_one(lane: Lane, seed: int) -> None:
    verdict = judge(lane, seed, sequence(seed))

    assert verdict.violations == ()
    assert verdict.num_steps >= LEAST_STEPS
