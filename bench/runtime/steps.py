"""Whole steps, ours beside TRL's: generate, reward, train, and on with the new weights.

Each side has one thread and the same core. TRL's settings are tried first, each for some steps
after one of warm-up; its fastest with and without continuous batching then take turns with ours,
which is held against the faster. Rates are of wall time and of processor time: the latter is what a
busy machine cannot distort much.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from bench.runtime.task import LARGE, LONG, SHORT, SMALL, Lengths, Size
from bench.runtime.turns import Side, Turn
from hetrl_runtime.compute.precision import cpu_multiplies_bfloat16

ORACLES = Path(".venv-oracles/bin/python")
OURS = Path(sys.executable)

MEMORY_KEPT = "memory kept, as ours"
"""TRL with our own processes' handling of freed memory: no setting of its makers, so that it is
reported but not what ours is held against."""

ROUNDED = "bfloat16, continuous batching"
"""TRL's fastest where layers are wide, and no setting that trains what ours does: before it
generates so, it turns the model that it trains to bfloat16 for good, and AdamW's moments with it
(``unwrapped_model.to(torch.bfloat16)`` in its ``GRPOTrainer``). It takes its turns, and is
reported with the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model, lengths, and how much is sampled for one step."""

    size: Size
    lengths: Lengths
    batch_size: int
    learning_rate: float
    group_size: int = 8
    num_tried: int = 3
    """Steps for which each of TRL's settings is tried: of one alone with few samples, the lengths
    that it happened to draw decide."""

    num_turns: int = 15
    """Timed steps of each side, for the same reason."""

    @property
    def name(self) -> str:
        return f"{self.size.name}-{self.lengths.name}"

    def settings(self, model: Path) -> dict[str, object]:
        """Return the settings of both sides."""
        return {
            "model": str(model),
            "threads": 1,
            "seed": 1,
            "batch_size": self.batch_size,
            "group_size": self.group_size,
            "min_tokens": self.lengths.fewest,
            "max_tokens": self.lengths.most,
            "learning_rate": self.learning_rate,
            "places": self.batch_size,
        }

    def trls(self) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield ways in which TRL might be fastest."""
        whole, quarter = self.batch_size, max(self.group_size, self.batch_size // 4)
        plain: dict[str, object] = {"micro_batch_size": whole, "bf16": False, "continuous": False}
        yield f"passes of {whole}", plain
        yield f"passes of {quarter}", plain | {"micro_batch_size": quarter}
        # Else it takes nearly all memory for keys and values.
        blocks = whole * (2 + self.lengths.most // 32)
        cache = {"page_size": 32, "num_blocks": blocks, "max_batch_tokens": max(512, whole)}
        continuous = {"continuous": True, "continuous_config": cache}
        yield f"passes of {whole}, continuous batching", plain | continuous
        # Without such instructions it is an eighth as fast, and trying it takes minutes.
        if torch.cpu.get_capabilities().get("avx512_bf16"):
            halved = plain | {"bf16": True}
            yield f"passes of {whole}, bfloat16", halved
            yield f"passes of {quarter}, bfloat16", halved | {"micro_batch_size": quarter}
            yield ROUNDED, halved | continuous
        is_halved = cpu_multiplies_bfloat16() and self.size is LARGE
        likely = {"bf16": True} if is_halved else {"micro_batch_size": quarter}
        yield MEMORY_KEPT, plain | likely | {"keeps_memory": True}


CASES = (
    Case(size=SMALL, lengths=SHORT, batch_size=256, learning_rate=1e-3),
    Case(size=SMALL, lengths=LONG, batch_size=64, learning_rate=1e-3),
    Case(size=LARGE, lengths=SHORT, batch_size=32, learning_rate=3e-5),
    # TRL is as fast with 8 and with 32, but of 8 the lengths drawn decide what a step takes. All
    # sides once take minutes.
    Case(size=LARGE, lengths=LONG, batch_size=16, learning_rate=3e-5, num_tried=2, num_turns=5),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a side's turns come to."""

    samples_per_second: float
    samples_per_cpu_second: float
    tokens_per_sample: float
    rewards: tuple[float, ...]
    """Of each step, the warm-up's first."""

    @classmethod
    def of(cls, turns: list[Turn]) -> "Sums":
        """Sum up, leaving the first turn out of rates."""
        timed = turns[1:]
        return cls(
            samples_per_second=statistics.median(each.num_samples / each.seconds for each in timed),
            samples_per_cpu_second=statistics.median(
                each.num_samples / each.cpu_seconds for each in timed
            ),
            tokens_per_sample=sum(each.num_tokens for each in timed)
            / sum(each.num_samples for each in timed),
            rewards=tuple(each.reward for each in turns),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One case: what TRL was tried with, and both sides in turns."""

    tried: dict[str, Sums | str]
    """By settings; why it failed, where it did."""

    in_turns: dict[str, Sums]
    """TRL's two that took turns with ours, by settings."""

    best: str
    """The faster of them, which ours is held against."""

    batch_size: int
    ours: Sums
    rounded: Sums | None
    """TRL as ``ROUNDED`` says; None where it is not tried."""

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps(asdict(self), indent=1)


def measure(case: Case, model: Path, *, cores: set[int]) -> Found:
    """Try TRL's settings, then let its finalists and ours take turns.

    Raises:
        RuntimeError: a side ended, or none of TRL's settings ran.
    """
    settings = case.settings(model)
    ways = dict(case.trls())
    tried: dict[str, Sums | str] = {}
    for name, way in ways.items():
        tried[name] = _tried(settings | way, num_steps=case.num_tried, cores=cores)
    finalists = finalists_of(ways, tried)
    settings_by_side = {"ours": settings} | {name: settings | ways[name] for name in finalists}
    if isinstance(tried.get(ROUNDED), Sums):
        settings_by_side[ROUNDED] = settings | ways[ROUNDED]
    sums = _in_turns(settings_by_side, num_turns=case.num_turns, cores=cores)
    best = max(finalists, key=lambda name: sums[name].samples_per_cpu_second)
    return Found(
        tried=tried,
        in_turns={name: sums[name] for name in finalists},
        best=best,
        batch_size=case.batch_size,
        ours=sums["ours"],
        rounded=sums.get(ROUNDED),
    )


def finalists_of(ways: dict[str, dict[str, object]], tried: dict[str, Sums | str]) -> list[str]:
    """Return the fastest that pads, and the fastest that batches continuously.

    A padded batch takes as long as its longest response: of few steps, the lengths drawn decide
    between the two, so that both go on to the turns.
    """
    fastest: dict[object, tuple[float, str]] = {}
    for name, each in tried.items():
        if isinstance(each, Sums) and name not in {MEMORY_KEPT, ROUNDED}:
            kind = ways[name]["continuous"]
            rated = (each.samples_per_cpu_second, name)
            fastest[kind] = max(rated, fastest.get(kind, rated))
    if not fastest:
        raise RuntimeError(f"none of TRL's settings ran: {tried}")
    return [name for _, name in fastest.values()]


def _in_turns(
    settings: dict[str, dict[str, object]], *, num_turns: int, cores: set[int]
) -> dict[str, Sums]:
    turns: dict[str, list[Turn]] = {name: [] for name in settings}
    with ExitStack() as opened:
        sides = {
            name: opened.enter_context(side_of(name, settings[name], cores)) for name in settings
        }
        for _ in range(1 + num_turns):
            for name, side in sides.items():
                turns[name].append(side.take_turn())
    return {name: Sums.of(each) for name, each in turns.items()}


def side_of(name: str, settings: dict[str, object], cores: set[int]) -> Side:
    """Return ours, or TRL's by any other name, with its settings; to be opened."""
    if name == "ours":
        return Side(OURS, ("bench.runtime.our_side",), settings, cores)
    return Side(ORACLES, ("bench.runtime.trl_side",), settings, cores)


def _tried(settings: dict[str, object], *, num_steps: int, cores: set[int]) -> Sums | str:
    with side_of("trl", settings, cores) as side:
        try:
            return Sums.of([side.take_turn() for _ in range(1 + num_steps)])
        except RuntimeError as error:
            return str(error)
