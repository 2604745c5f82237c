"""StreamRL: generation and training apart, one step asynchronous, each side of one kind of GPU.

After arXiv 2504.15930, which is not open source: its stream generation service and its trainer
stand on GPUs of their own, possibly of other kinds and in other places; its resource allocator
gives each side the GPUs with which both take equally long. Here every allocation of whole
machines of one kind a side is tried, and every split of each machine; the best is taken.
"""

from collections.abc import Iterator

from bench.planner.baselines.equal_shares import EqualShares
from bench.planner.baselines.pools import Pool
from bench.planner.baselines.sides import Sides
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.layout import Layout


def plan(evaluator: EqualShares) -> Layout | None:
    """Return the best allocation, ``None`` if none fits."""
    devices, sides = evaluator.devices, Sides(evaluator)
    best = sides.best_apart(_homogeneous(devices, sides))
    return best.layout if best else None


def _homogeneous(devices: Devices, sides: Sides) -> Iterator[tuple[Pool, Pool]]:
    for trains, others in sides.pairs(range(devices.num_machines)):
        if _has_one_kind(devices, trains) and _has_one_kind(devices, others):
            yield trains, others


def _has_one_kind(devices: Devices, pool: Pool) -> bool:
    return len({devices.kind(machine).name for machine, _, _ in pool.machines}) == 1
