"""Manual practice: the GPU kind that trains fastest trains, the others generate.

Ours. Every GPU of the kind with the largest peak goes to the trainer, and all but generation
stands beside it; where it does not fit there, the next kind is tried. A fleet of one kind gives
training half of its GPUs. Each side is cut in its best uniform way.
"""

from bench.planner.baselines.equal_shares import EqualShares
from bench.planner.baselines.pools import Pool, pool
from bench.planner.baselines.sides import Sides
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.layout import Layout


def plan(evaluator: EqualShares) -> Layout | None:
    """Return the plan, ``None`` if it fits with no kind as the trainer."""
    devices, sides = evaluator.devices, Sides(evaluator)
    kinds = {site.kind.name: site.kind for site in devices.sites}
    for name in sorted(kinds, key=lambda name: (-kinds[name].bf16_flops, name)):
        found = sides.best_apart([_sides(devices, name)])
        if found:
            return found.layout
    return None


def _sides(devices: Devices, trainer: str) -> tuple[Pool, Pool]:
    everything = range(devices.num_machines)
    trains = [machine for machine in everything if devices.kind(machine).name == trainer]
    others = [machine for machine in everything if machine not in trains]
    if others:
        return pool(devices, trains), pool(devices, others)
    whole = pool(devices, trains)
    return whole.head(whole.num_gpus // 2), whole.tail(whole.num_gpus // 2)
