"""Response lengths: distributions over tokens, cut at a longest length.

A mean is always that of the lengths as generated, after the cut, because that is what a run
reports. Drawing takes the caller's generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import erf, exp, fsum, inf, log, sqrt
from typing import TYPE_CHECKING, Protocol

from hetrl_planner.problem.checks import above, at_least

if TYPE_CHECKING:
    import numpy as np

_Z95 = 1.6448536269514722
_Z99 = 2.3263478740408408
_BISECTIONS = 80
_POINTS = 2001
"""Of an integral over lengths."""


class Lengths(Protocol):
    """A distribution of response lengths."""

    @property
    def mean_tokens(self) -> float:
        """Return the mean length, after the cut."""

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """Draw so many lengths, each at least one token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Every response equally long."""

    tokens: int

    def __post_init__(self) -> None:
        at_least("responseTokens.constant", self.tokens, 1)

    @property
    def mean_tokens(self) -> float:
        """The length."""
        return float(self.tokens)

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:  # noqa: ARG002
        """Return the length so many times."""
        return [self.tokens] * count


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Every length of a range, both ends included, equally likely."""

    min_tokens: int
    max_tokens: int

    def __post_init__(self) -> None:
        at_least("responseTokens.uniform.min", self.min_tokens, 1)
        at_least("responseTokens.uniform.max", self.max_tokens, self.min_tokens)

    @property
    def mean_tokens(self) -> float:
        """The middle of the range."""
        return (self.min_tokens + self.max_tokens) / 2

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """Draw so many lengths."""
        drawn = generator.integers(self.min_tokens, self.max_tokens, size=count, endpoint=True)
        return [int(each) for each in drawn]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """``exp(N(log_mean, log_sigma²))`` tokens, cut at the longest: a long tail."""

    log_mean: float
    log_sigma: float
    max_tokens: int

    def __post_init__(self) -> None:
        at_least("responseTokens.lognormal.max", self.max_tokens, 1)
        at_least("responseTokens.lognormal sigma", self.log_sigma, 0)

    @property
    def mean_tokens(self) -> float:
        """``E[min(X, m)] = exp(µ + s²/2)·Φ((ln m - µ - s²)/s) + m·Φ((µ - ln m)/s)``."""
        mean, sigma, cut = self.log_mean, self.log_sigma, log(self.max_tokens)
        if sigma == 0:
            return min(exp(mean), float(self.max_tokens))
        below = exp(mean + sigma**2 / 2) * _normal_cdf((cut - mean - sigma**2) / sigma)
        return below + self.max_tokens * _normal_cdf((mean - cut) / sigma)

    def mean_longest(self, count: int) -> float:
        """Return the mean of the longest of so many: ``E[max] = integral of 1 - F(x)^n``."""
        if self.log_sigma == 0:
            return self.mean_tokens
        width = self.max_tokens / (_POINTS - 1)
        below = [0.0] + [
            _normal_cdf((log(number * width) - self.log_mean) / self.log_sigma)
            for number in range(1, _POINTS)
        ]
        above_it = [1 - share**count for share in below]
        return width * fsum((left + right) / 2 for left, right in pairwise(above_it))

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """Draw so many lengths."""
        drawn = generator.lognormal(self.log_mean, self.log_sigma, size=count)
        return [min(max(1, round(each)), self.max_tokens) for each in drawn.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Empirical:
    """Lengths that were measured, each equally likely."""

    tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.tokens:
            raise ValueError("responseTokens.empirical must have at least one length, got none")
        at_least("responseTokens.empirical", min(self.tokens), 1)

    @property
    def mean_tokens(self) -> float:
        """Their mean."""
        return sum(self.tokens) / len(self.tokens)

    def draw(self, generator: np.random.Generator, count: int) -> list[int]:
        """Draw so many of them, with replacement."""
        drawn = generator.integers(0, len(self.tokens), size=count)
        return [self.tokens[int(each)] for each in drawn]


def lognormal_of_variation(*, mean_tokens: float, variation: float, max_tokens: int) -> LogNormal:
    """Return the log-normal of a mean and a coefficient of variation (before the cut).

    Raises:
        ValueError: no log-normal has this mean below this cut.
    """
    at_least("responseTokens.lognormal.cv", variation, 0)
    return _of_sigma(mean_tokens, sqrt(log(1 + variation**2)), max_tokens)


def lognormal_of_p95(*, mean_tokens: float, p95_tokens: float, max_tokens: int) -> LogNormal:
    """Return the log-normal of a mean and a 95th percentile, which the cut does not reach.

    Along the curve ``µ = ln p95 - 1.645·s`` the mean falls from p95 as s grows to 1.645.

    Raises:
        ValueError: the three lengths contradict each other.
    """
    _check_mean(mean_tokens, max_tokens)
    at_least("responseTokens.lognormal.p95", p95_tokens, mean_tokens)
    at_least("responseTokens.lognormal.max", max_tokens, p95_tokens)

    def at(sigma: float) -> LogNormal:
        return LogNormal(
            log_mean=log(p95_tokens) - _Z95 * sigma, log_sigma=sigma, max_tokens=max_tokens
        )

    if at(_Z95).mean_tokens > mean_tokens:
        raise ValueError(
            f"responseTokens.lognormal.p95 must be at most about {exp(_Z95**2 / 2):.1f} times the "
            f"mean ({mean_tokens}), got {p95_tokens}"
        )
    low, high = 0.0, _Z95
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).mean_tokens > mean_tokens else (low, middle)
    return at((low + high) / 2)


def lognormal_of_max(*, mean_tokens: float, max_tokens: int) -> LogNormal:
    """Return a log-normal for a job, which states a mean and a cut: one in a hundred is cut.

    The share is ours. Where the cut is too far off for that, sigma is the widest that the
    rule gives, and fewer are cut.
    """
    _check_mean(mean_tokens, max_tokens)
    # exp(µ + s²/2) = mean and exp(µ + 2.326·s) = max, before the cut.
    root = _Z99**2 - 2 * log(max_tokens / mean_tokens)
    return _of_sigma(mean_tokens, _Z99 - sqrt(max(0.0, root)), max_tokens)


def _of_sigma(mean_tokens: float, sigma: float, max_tokens: int) -> LogNormal:
    _check_mean(mean_tokens, max_tokens)
    if mean_tokens == max_tokens or sigma == 0:
        return LogNormal(log_mean=log(mean_tokens), log_sigma=0.0, max_tokens=max_tokens)
    low, high = log(mean_tokens) - sigma**2, log(max_tokens) + 40 * sigma
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        found = LogNormal(log_mean=middle, log_sigma=sigma, max_tokens=max_tokens)
        low, high = (middle, high) if found.mean_tokens < mean_tokens else (low, middle)
    return LogNormal(log_mean=(low + high) / 2, log_sigma=sigma, max_tokens=max_tokens)


def _check_mean(mean_tokens: float, max_tokens: int) -> None:
    above("responseTokens.lognormal.mean", mean_tokens, 0)
    if not mean_tokens <= max_tokens < inf:
        raise ValueError(
            f"responseTokens.lognormal.max must be >= the mean ({mean_tokens}), got {max_tokens}"
        )


def _normal_cdf(z: float) -> float:
    return (1 + erf(z / sqrt(2))) / 2
