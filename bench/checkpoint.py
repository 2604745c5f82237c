"""Delay of training by a checkpoint: written in place, and beside training from a copy.

Run it as ``python bench/checkpoint.py``, ``--parameters`` for another size. In one run, on one
disk: steps of a matrix multiplication with AdamW's state beside it, a checkpoint with every fifth.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import safetensors.torch
import torch
from prometheus_client import CollectorRegistry
from torch import Tensor

from hetrl_runtime.metrics.trainer import TrainerMetrics
from hetrl_runtime.trainer.checkpoints.checkpoint import CheckpointFolder
from hetrl_runtime.trainer.checkpoints.writer import CheckpointWriter
from hetrl_runtime.wire.values import ResumePoint

ROUNDS = 3
STEPS_BETWEEN = 12
WIDTH = 1024


def main() -> None:
    """Print what a step takes without a checkpoint, with one in place, and with one beside it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, default=100_000_000)
    size = parser.parse_args().parameters
    torch.manual_seed(1)
    count = max(1, size // WIDTH**2)
    state = {
        f"layer.{layer}:{moment}": torch.rand(WIDTH, WIDTH)
        for layer in range(count)
        for moment in ("exp_avg", "exp_avg_sq")
    }
    weights = safetensors.torch.save({f"layer.{n}": torch.rand(WIDTH, WIDTH) for n in range(count)})
    millions = count * WIDTH**2 / 1e6
    print(f"{millions:.0f} M parameters, {12 * millions / 1e3:.2f} GB a checkpoint")
    with tempfile.TemporaryDirectory() as folder:
        report(Path(folder), weights, state)


def report(root: Path, weights: bytes, state: dict[str, Tensor]) -> None:
    """Measure both ways in turn, so that both have the same disk and neighbours."""
    held: dict[str, list[float]] = {"in place": [], "beside": []}
    whole: list[float] = []
    slowed: list[float] = []
    alone = statistics.median(step(state) for _ in range(STEPS_BETWEEN))
    metrics = TrainerMetrics(CollectorRegistry())
    for number in range(ROUNDS):
        folder = CheckpointFolder(root / str(number), keep_last=1)
        folder.prepare()
        save = saver(weights)

        begun = time.perf_counter()
        folder.write(ResumePoint(version=1), save_model=save, optimizer=state)
        held["in place"].append(time.perf_counter() - begun)

        writer = CheckpointWriter(folder, metrics)
        begun = time.perf_counter()
        writer.begin(ResumePoint(version=2), save_model=save, state=lambda: state)
        held["beside"].append(time.perf_counter() - begun)
        while writer.is_writing:
            slowed.append(step(state))
        whole.append(time.perf_counter() - begun)
        writer.finish()
    in_place, beside = (statistics.median(held[way]) for way in held)
    print(f"a step alone:                     {alone:7.3f} s")
    print(f"held up, written in place:        {in_place:7.3f} s")
    print(f"held up, written from a copy:     {beside:7.3f} s, {beside / in_place:.1%} of that")
    print(f"then written in:                  {statistics.median(whole):7.3f} s")
    print(
        f"a step meanwhile:                 {statistics.median(slowed):7.3f} s, "
        f"{statistics.median(slowed) / alone:.2f} times one alone"
    )


def saver(weights: bytes) -> Callable[[Path], None]:
    def save(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(weights)

    return save


def step(state: dict[str, Tensor]) -> float:
    """Do what a step does to memory and cores: products, and every moment changed."""
    begun = time.perf_counter()
    one = next(iter(state.values()))
    for _ in range(4):
        one @ one
    for tensor in state.values():
        tensor.mul_(0.999)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
