"""What a trajectory says of itself."""

import pytest

from hetrl_runtime.wire.trajectory import TOOL_VERSION
from tests.runtime.trajectories import a_trajectory

T = TOOL_VERSION


@pytest.mark.parametrize(
    ("versions", "number"),
    [
        pytest.param([3, 3, 3], 0, id="no tool"),
        pytest.param([3, T, T, 3], 1, id="one result of two tokens"),
        pytest.param([3, T, 4, T], 2, id="two results, the last at the end"),
        pytest.param([3], 0, id="one token"),
    ],
)
def test_the_results_of_tools_are_counted(versions: list[int], number: int) -> None:
    assert a_trajectory(versions=versions).num_tool_calls == number
