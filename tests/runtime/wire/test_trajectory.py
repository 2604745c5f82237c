"""Properties of a trajectory's versions."""

import numpy as np
import pytest

from hetrl_runtime.wire.trajectory import TOOL_VERSION, num_tool_calls

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
def test_results_of_tools_are_counted(versions: list[int], number: int) -> None:
    assert num_tool_calls(np.asarray(versions, dtype=np.int32)) == number
