"""AReaL on one kind of GPU: asynchronous, inference and training on GPUs of their own.

After AReaL (arXiv 2505.24298): three GPUs generate for one that trains, a fixed split; tuned, it
is the best one. Cuts are the best uniform ones in both, for AReaL's examples choose them by
model. ``plans`` gives one plan for each kind of a fleet that can run the job alone.
"""

from collections.abc import Iterator

from bench.planner.baselines.equal_shares import EqualShares
from bench.planner.baselines.pools import Pool, pool
from bench.planner.baselines.sides import Sides
from hetrl_planner.layout.layout import Layout

INFERENCE_SHARE = 0.75


def plans(evaluator: EqualShares, *, is_tuned: bool) -> dict[str, Layout]:
    """Return the plan on each kind alone, by the kind's name."""
    sides = Sides(evaluator)
    names = {site.kind.name for site in evaluator.devices.sites}
    found = {name: _plan(evaluator, sides, name, is_tuned=is_tuned) for name in sorted(names)}
    return {name: layout for name, layout in found.items() if layout}


def plan(evaluator: EqualShares, *, is_tuned: bool = True) -> Layout | None:
    """Return the fastest of them, ``None`` if no kind can run the job alone."""
    priced = [
        (evaluator.evaluate(layout).step_seconds, layout)  # type: ignore[union-attr]
        for layout in plans(evaluator, is_tuned=is_tuned).values()
    ]
    return min(priced, key=lambda each: each[0])[1] if priced else None


def _plan(evaluator: EqualShares, sides: Sides, name: str, *, is_tuned: bool) -> Layout | None:
    devices = evaluator.devices
    machines = [
        machine for machine in range(devices.num_machines) if devices.kind(machine).name == name
    ]
    if is_tuned:
        pools = sides.pools(machines)
        best = sides.best_apart(pair for gpus in pools for pair in _splits(gpus))
    else:
        gpus = pool(devices, machines)
        trains = gpus.num_gpus - round(INFERENCE_SHARE * gpus.num_gpus)
        best = sides.best_apart([(gpus.head(trains), gpus.tail(trains))] if trains else [])
    return best.layout if best else None


def _splits(gpus: Pool) -> Iterator[tuple[Pool, Pool]]:
    for count in range(1, gpus.num_gpus):
        yield gpus.head(count), gpus.tail(count)
