"""verl tuned by a patient expert: its best tp, pp, dp and subset of GPUs, by exhaustive search.

One uniform cut a task (FSDP or Megatron-LM's, with and without recomputation), any set of whole
machines, ranks ordered by kind or by region. Synchronous: all tasks on one pool, or rollouts on
GPUs of their own. Asynchronous: one step off, on disjoint pools. Shares stay equal: verl does
not divide work by speed.
"""

from bench.planner.baselines.equal_shares import EqualShares
from bench.planner.baselines.sides import Sides
from hetrl_planner.layout.layout import Layout


def plan(evaluator: EqualShares) -> Layout | None:
    """Return verl's best plan, ``None`` if it fits no GPU."""
    devices, sides = evaluator.devices, Sides(evaluator)
    by_kind = tuple(range(devices.num_machines))
    by_region = tuple(sorted(by_kind, key=lambda machine: (devices.region(machine), machine)))
    orders = tuple(dict.fromkeys((by_kind, by_region)))
    found = [sides.best_apart(pair for order in orders for pair in sides.pairs(order))]
    if evaluator.work.is_synchronous:
        found.append(sides.best_together(gpus for order in orders for gpus in sides.pools(order)))
    best = min((each for each in found if each), key=lambda each: each.step_seconds, default=None)
    return best.layout if best else None
