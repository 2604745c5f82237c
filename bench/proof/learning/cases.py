"""The runs that the proof is made of, most telling first, and what each must come to.

A case is one `hetrl demo` of an example's job with a few fields changed; how it is played is
``play``'s.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hetrl_core.job.algorithm import AlgorithmType, ProximalPolicy
from hetrl_core.job.spec import Engine

BOUNDS = (0, 2, 4, 8)
SEEDS = (1, 2, 3)

MOST_BEFORE = 0.40
LEAST_AFTER = 0.90
MOST_GAINED_BY_A_CONTROL = 0.05
LEAST_PROBLEMS = 2000
STEPS = 120
"""In place of the examples' 80, after which rewards still rise."""

MOST_LOST_TO_STALENESS = 0.03
"""Of the accuracy at bound 0, by bound ``STALE``."""

STALE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A run that has everything but something to learn from."""

    name: str
    options: tuple[str, ...]
    """Of `hetrl demo`."""


RATE_ZERO = Control(name="rate-zero", options=("--learning-rate", "0"))
SHUFFLED = Control(name="shuffled", options=("--shuffle-rewards",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run: what it does differently from the algorithm's example."""

    algorithm: AlgorithmType
    max_staleness: int
    engine: Engine = Engine.TRANSFORMERS
    seed: int = 1
    proximal_policy: ProximalPolicy = ProximalPolicy.STEP_START
    control: Control | None = None

    @property
    def is_naive(self) -> bool:
        """Whether stale samples are clipped around the policy that made them."""
        return self.proximal_policy is ProximalPolicy.BEHAVIOUR

    @property
    def name(self) -> str:
        """What it is called on the command line and in the folder of records."""
        parts = (
            self.algorithm.lower(),
            "naive" if self.is_naive else "",
            f"eta{self.max_staleness}",
            self.engine.value,
            f"seed{self.seed}",
            self.control.name if self.control else "",
        )
        return "-".join(filter(None, parts))

    def shortcomings(self, found: Mapping[str, Any]) -> tuple[str, ...]:
        """Return in words what the run's result falls short of; nothing where it holds.

        Of naive runs, no accuracy is asked: they are there to be compared with.
        """
        return tuple(self._wrong_with_the_run(found)) + tuple(self._wrong_with_learning(found))

    def _wrong_with_the_run(self, found: Mapping[str, Any]) -> Iterator[str]:
        mean, largest = found["staleness_mean"], found["staleness_max"]
        if found["held_out_problems"] < LEAST_PROBLEMS:
            yield f"{found['held_out_problems']} held-out problems, not {LEAST_PROBLEMS}"
        if largest > self.max_staleness:
            yield f"staleness {largest}"
        if mean < self.max_staleness / 2:
            yield f"mean staleness {mean:.2f}, less than half of the bound"

    def _wrong_with_learning(self, found: Mapping[str, Any]) -> Iterator[str]:
        before, after = found["accuracy_before"], found["accuracy_after"]
        if self.control:
            if after - before > MOST_GAINED_BY_A_CONTROL:
                yield f"gains {after - before:.1%}"
        elif not self.is_naive:
            if before > MOST_BEFORE:
                yield f"starts at {before:.1%}"
            if after < LEAST_AFTER:
                yield f"comes to {after:.1%}"


_GRPO, _PPO = AlgorithmType.GRPO, AlgorithmType.PPO


def _grid(
    *,
    seeds: Sequence[int] = SEEDS,
    algorithms: Sequence[AlgorithmType] = (_GRPO, _PPO),
    engine: Engine = Engine.TRANSFORMERS,
    proximal_policy: ProximalPolicy = ProximalPolicy.STEP_START,
) -> Iterator[Case]:
    for seed, algorithm, bound in product(seeds, algorithms, BOUNDS):
        yield Case(
            algorithm=algorithm,
            max_staleness=bound,
            engine=engine,
            seed=seed,
            proximal_policy=proximal_policy,
        )


_CONTROLS = (
    Case(algorithm=algorithm, max_staleness=2, control=control)
    for algorithm, control in product((_PPO, _GRPO), (SHUFFLED, RATE_ZERO))
)
_NAIVE = ProximalPolicy.BEHAVIOUR

CASES = tuple(
    dict.fromkeys(
        [
            *_grid(seeds=(1,), algorithms=(_GRPO,)),
            *_grid(seeds=(1,), algorithms=(_GRPO,), proximal_policy=_NAIVE),
            *_CONTROLS,
            *_grid(seeds=(1,), algorithms=(_PPO,)),
            *_grid(seeds=(1,), algorithms=(_GRPO,), engine=Engine.VLLM),
            *_grid(),
            *_grid(proximal_policy=_NAIVE),
            *_grid(engine=Engine.VLLM),
        ]
    )
)
"""The whole matrix, what says most first."""
