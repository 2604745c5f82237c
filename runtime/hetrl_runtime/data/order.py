"""The order of prompts: each pass over the data has its own shuffle, by the seed alone.

A run that resumes, on any machine, continues in the same order.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class PassOrder:
    """The index of the n-th prompt, counted over all passes."""

    num_prompts: int
    seed: int
    salt: tuple[int, ...] = ()
    """Tells orders of one seed apart."""

    _passes: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.num_prompts < 1:
            raise ValueError(f"num_prompts must be >= 1, got {self.num_prompts}")

    def index(self, number: int) -> int:
        """Return the index of prompt ``number`` of the walk through all passes."""
        pass_number, position = divmod(number, self.num_prompts)
        return int(self._order(pass_number)[position])

    def _order(self, pass_number: int) -> npt.NDArray[np.int64]:
        if pass_number not in self._passes:
            # Groups of two passes are open at once at the turn of a pass, older ones never.
            self._passes = {n: each for n, each in self._passes.items() if n == pass_number - 1}
            rng = np.random.default_rng([self.seed, pass_number, *self.salt])
            self._passes[pass_number] = rng.permutation(self.num_prompts)
        return self._passes[pass_number]
