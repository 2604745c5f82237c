"""verl as its documentation starts it: one uniform plan over all ranks, in rank order.

Sources: verl's ``ppo_trainer.yaml`` (actor strategy fsdp over all ranks, gradient checkpointing,
rollout ``tensor_model_parallel_size`` 2) and its hybrid engine, one resource pool for all tasks.
Asynchronous, after ``docs/advance/one_step_off.md`` and ``fully_async.md``: rollouts and trainer
on GPUs of their own, nodes in rank order, the trainer's first; the split is the best one, for
its documentation asks users to find it. If the default does not fit the smallest GPU, the next
larger power of two is taken, as users would.
"""

from bench.planner.baselines.equal_shares import EqualShares
from bench.planner.baselines.pools import Pool, pool, rank_order, serving
from bench.planner.baselines.sides import FSDP, Sides
from hetrl_core.task import Task
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import Layout

TENSOR_SIZES = (2, 4, 8, 1)
"""Of rollouts, the documented default first; 1 where machines have one GPU."""


def plan(evaluator: EqualShares) -> Layout | None:
    """Return verl's default plan, ``None`` if it fits no GPU."""
    devices, sides = evaluator.devices, Sides(evaluator, cuts=(FSDP,))
    machines = rank_order(devices)
    whole = pool(devices, machines)
    if evaluator.work.is_synchronous:
        found = _on(evaluator, sides, whole, whole)
    else:
        splits = [
            (pool(devices, machines[:count]), pool(devices, machines[count:]))
            for count in range(1, len(machines))
        ] or [(whole.head(count), whole.tail(count)) for count in range(1, whole.num_gpus)]
        plans = (_on(evaluator, sides, trains, others) for trains, others in splits)
        found = min(
            (each for each in plans if each), key=lambda each: each.step_seconds, default=None
        )
    return found.layout if found else None


def _on(evaluator: EqualShares, sides: Sides, trains: Pool, others: Pool) -> Evaluation | None:
    """Return the first size that fits."""
    for tensor in TENSOR_SIZES:
        generation = serving(Task.ACTOR_GENERATION, others, evaluator.work, tensor=tensor)
        for side in sides.training_options(trains):
            if not generation:
                continue
            layout = (
                Layout(((generation, *side.tasks),))
                if trains == others
                else Layout(((generation,), side.tasks))
            )
            found = evaluator.evaluate(layout)
            if isinstance(found, Evaluation):
                return found
    return None
