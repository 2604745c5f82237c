"""A comparison of the trainer's and the engine's log-probabilities under the same weights.

Of tokens whose trajectory was sampled by the very weights that the step begins with. Engine and
trainer should say the same of these, but for rounding. What is left is an engine, or a trainer,
that computes another model, on which every importance weight would be wrong.
"""

from dataclasses import dataclass
from enum import Enum

from hetrl_runtime.wire.values import ENGINE_MISMATCH, Ending

MIN_TOKENS = 2000
"""Of one verdict: a few unlikely tokens, which rounding moves most, do not make the mean."""


class Limit(float, Enum):
    """The largest mean difference in nats, by the coarser precision of the two sides."""

    FLOAT32 = 0.01
    """A thousand times what two implementations differ by."""

    BFLOAT16 = 0.3
    """Ten times what rounding to it changes, and a tenth of what another model family does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Sums over tokens, of all processes."""

    num_tokens: int = 0
    trainer_nats: float = 0.0
    engine_nats: float = 0.0
    difference_nats: float = 0.0
    """Of each token's distance."""

    @property
    def mean_nats(self) -> float:
        """The mean distance."""
        return self.difference_nats / self.num_tokens

    def figures(self) -> dict[str, float]:
        """Return the mean distance for a step's report; nothing where there were no tokens."""
        return {"engine_difference": self.mean_nats} if self.num_tokens else {}

    def __add__(self, other: "Comparison") -> "Comparison":
        return Comparison(
            num_tokens=self.num_tokens + other.num_tokens,
            trainer_nats=self.trainer_nats + other.trainer_nats,
            engine_nats=self.engine_nats + other.engine_nats,
            difference_nats=self.difference_nats + other.difference_nats,
        )


class EngineWatch:
    """Comparisons since the last verdict, which needs ``MIN_TOKENS`` tokens."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._seen = Comparison()

    def see(self, comparison: Comparison) -> Ending | None:
        """Take a step's comparison in; return how the run ends where the two do not match."""
        seen = self._seen + comparison
        is_enough = seen.num_tokens >= MIN_TOKENS
        self._seen = Comparison() if is_enough else seen
        if not is_enough or seen.mean_nats <= self._limit.value:
            return None
        return Ending(reason=ENGINE_MISMATCH, message=self._message(seen))

    def _message(self, seen: Comparison) -> str:
        trainer, engine = (each / seen.num_tokens for each in (seen.trainer_nats, seen.engine_nats))
        return (
            f"trainer and engine differ by {seen.mean_nats:.3g} nats a token under the same "
            f"weights (mean log-probability {trainer:.4g} and {engine:.4g}, over {seen.num_tokens} "
            f"tokens), more than the {self._limit.value:g} of {self._limit.name.lower()}: one of "
            "them computes another model; check spec.model and the engine's version"
        )
