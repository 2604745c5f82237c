"""What a reward function may return, and what becomes of it."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hetrl_core.units import FLOAT32_MAX
from hetrl_runtime.reward.verdict import Unjudged, UnjudgedReason, read_reward


@pytest.mark.parametrize(
    ("returned", "reward"),
    [
        (1, 1.0),
        (-0.5, -0.5),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.float64(1.0), 1.0),
        (np.float16(0.25), 0.25),
        (np.int64(2), 2.0),
        (np.bool_(False), 0.0),
        (np.array(0.75), 0.75),
        (Decimal("0.25"), 0.25),
        (Fraction(1, 4), 0.25),
        ({"score": 1.0, "acc": True}, 1.0),
        ({"score": np.float32(0.5)}, 0.5),
        (FLOAT32_MAX, FLOAT32_MAX),
        (-FLOAT32_MAX, -FLOAT32_MAX),
    ],
)
def test_number_of_any_type_is_a_reward(returned: object, reward: float) -> None:
    verdict = read_reward(returned)

    assert verdict == reward
    assert type(verdict) is float


@pytest.mark.parametrize(
    ("returned", "reason", "detail"),
    [
        (None, UnjudgedReason.FUNCTION_DECLINED, "returned None"),
        ({"score": None}, UnjudgedReason.FUNCTION_DECLINED, "returned None"),
        ({"acc": 1.0}, UnjudgedReason.WRONG_TYPE, "without 'score' (its keys: acc); add that key"),
        ({}, UnjudgedReason.WRONG_TYPE, "its keys: none"),
        ("1.0", UnjudgedReason.WRONG_TYPE, "str '1.0'; return a number: float(...)"),
        ([1.0], UnjudgedReason.WRONG_TYPE, "list [1.0]; return one number, not a sequence"),
        ((1.0, {}), UnjudgedReason.WRONG_TYPE, "tuple (1.0, {}); return one number"),
        (1 + 2j, UnjudgedReason.WRONG_TYPE, "complex (1+2j); return a number, None"),
        (np.array([1.0, 2.0]), UnjudgedReason.WRONG_TYPE, "ndarray"),
        (b"1", UnjudgedReason.WRONG_TYPE, "bytes"),
        (1e39, UnjudgedReason.NOT_FINITE, "returned 1e+39; a reward must be a finite number"),
        (-1e300, UnjudgedReason.NOT_FINITE, "returned -1e+300"),
        (math.inf, UnjudgedReason.NOT_FINITE, "returned inf"),
        (math.nan, UnjudgedReason.NOT_FINITE, "returned nan"),
        (np.float32(np.nan), UnjudgedReason.NOT_FINITE, "nan"),
        (10**400, UnjudgedReason.NOT_FINITE, "returned 1000"),
        (Decimal("Infinity"), UnjudgedReason.NOT_FINITE, "Infinity"),
        (Decimal("sNaN"), UnjudgedReason.NOT_FINITE, "sNaN"),
        ({"score": math.nan}, UnjudgedReason.NOT_FINITE, "returned nan"),
    ],
)
def test_value_that_is_no_reward_is_unjudged_with_a_remedy(
    returned: Any, reason: UnjudgedReason, detail: str
) -> None:
    verdict = read_reward(returned)

    assert isinstance(verdict, Unjudged)
    assert verdict.reason is reason
    assert detail in verdict.detail
    assert str(verdict) == f"{reason}: {verdict.detail}"
