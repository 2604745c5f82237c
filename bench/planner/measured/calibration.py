"""Which rows calibrate, and the fit of a few parameters to them.

Deterministic: damped Gauss-Newton on the logarithm of predicted over published, so that twice as
long and half as long weigh alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from bench.planner.measured.case import Row
from hetrl_core.fleet.catalogue import CATALOGUE
from hetrl_planner.cost.generation import ENGINE_STEP_SECONDS

MAX_ROUNDS = 8
DIFFERENCE = 0.05
"""Of a parameter's logarithm: the simulator's answers are not smooth below."""

LEAST_GAIN = 1e-2
"""Of the sum of squares, from one round to the next."""

Vector = NDArray[np.float64]


def calibrates(number: int) -> bool:
    """Tell the half of the n-th row, counted from 1: in, out, out, in, and again.

    Written before any error was computed. Rows come in pairs (synchronous, asynchronous; 1.5B,
    7B), which plain alternation would sort by kind.
    """
    return number % 4 in {0, 1}


def halves(rows: Sequence[Row]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Return the rows to calibrate on, and those that stay untouched."""
    numbered = list(enumerate(rows, start=1))
    return (
        tuple(row for number, row in numbered if calibrates(number)),
        tuple(row for number, row in numbered if not calibrates(number)),
    )


_SHIPPED = next(kind for kind in CATALOGUE if kind.name == "H100-80GB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What is calibrated. The defaults are those that ship, alike for every kind of GPU."""

    compute_efficiency: float = _SHIPPED.compute_efficiency
    memory_efficiency: float = _SHIPPED.memory_efficiency
    engine_step_seconds: float = ENGINE_STEP_SECONDS
    weights_link_share: float = 1.0
    """Of a link's bandwidth, that a broadcast of weights reaches; the cost model has it at 1."""


LIMITS = {
    "compute_efficiency": (0.05, 1.0),
    "memory_efficiency": (0.05, 1.0),
    "engine_step_seconds": (1e-5, 0.1),
    "weights_link_share": (0.01, 1.0),
}

Predict = Callable[[Parameters], Sequence[float]]
"""Of the rows that calibrate, in their order."""


def fitted(predict: Predict, published: Sequence[float], *, start: Parameters) -> Parameters:
    """Return the parameters, within their limits, with the least mean squared log error."""
    low, high = np.log([LIMITS[field.name] for field in fields(start)]).T
    logs = np.log(list(asdict(start).values()))

    def errors(at: Vector) -> Vector:
        return np.asarray(np.log(predict(_parameters(at))) - np.log(published))

    here = errors(logs)
    for _ in range(MAX_ROUNDS):
        step, *_ = np.linalg.lstsq(_slopes(errors, logs, here), -here, rcond=1e-6)
        for share in (1.0, 0.5, 0.25, 0.1):
            tried = np.clip(logs + share * np.clip(step, -1, 1), low, high)
            there = errors(tried)
            if there @ there < (1 - LEAST_GAIN) * (here @ here):
                logs, here = tried, there
                break
        else:
            break
    return _parameters(logs)


def _slopes(errors: Callable[[Vector], Vector], logs: Vector, here: Vector) -> Vector:
    """Return the errors' differences, towards the smaller: most limits are above."""
    columns = []
    for number in range(len(logs)):
        nearby = logs.copy()
        nearby[number] -= DIFFERENCE
        columns.append((here - errors(nearby)) / DIFFERENCE)
    return np.array(columns).T


def _parameters(logs: Vector) -> Parameters:
    names = [field.name for field in fields(Parameters)]
    return replace(Parameters(), **dict(zip(names, np.exp(logs).tolist(), strict=True)))


def mean_absolute_error(predicted: Sequence[float], published: Sequence[float]) -> float:
    """Return the mean of the relative errors' sizes."""
    return float(np.mean([abs(a / b - 1) for a, b in zip(predicted, published, strict=True)]))
