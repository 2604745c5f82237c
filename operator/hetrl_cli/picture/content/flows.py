"""Data flows between the regions of a plan, and inside them, in words.

Rates are the prediction's, divided as the work is.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from hetrl_cli.picture.content.cards import Card
from hetrl_cli.picture.content.duties import stage_machines
from hetrl_cli.picture.content.hops import pipelines
from hetrl_cli.picture.content.movement import FlowKind, Hop, RegionFlow
from hetrl_cli.picture.content.palette import LOOKS
from hetrl_cli.picture.content.places import Places
from hetrl_cli.picture.content.weights import WeightWays
from hetrl_cli.tables.plan import rate
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_core.task import TRAINING_TASKS, Task

Work = dict[tuple[str, bool], float]
"""A task's shares by region, and whether on machines that only generate."""


def flows(
    plan: Plan,
    snapshot: ClusterSnapshot,
    job: JobSpec,
    *,
    cards: Sequence[Card],
    hops: Sequence[Hop],
) -> tuple[RegionFlow, ...]:
    """Return what moves in a plan, each once; two that are each other's way back are one."""
    places = Places(cards)
    found = [
        *_trajectories(plan, places),
        *WeightWays(plan, snapshot, job, cards).flows(),
        *pipelines(hops, cards),
        *_gradients(plan, places),
    ]
    return tuple(_paired(found))


def _trajectories(plan: Plan, places: Places) -> Iterator[RegionFlow]:
    """Yield flows of trajectories to the trainer, and to inference workers in other regions."""
    made = _work(plan, Task.ACTOR_GENERATION, places)
    for task in (task for task in LOOKS if task is not Task.ACTOR_GENERATION):
        used: dict[str, float] = defaultdict(float)
        for (region, _), share in _work(plan, task, places).items():
            used[region] += share
        for target, share in used.items():
            yield from _deliveries(plan, task, target, share, made)


def _deliveries(
    plan: Plan, task: Task, target: str, used: float, made: Work
) -> Iterator[RegionFlow]:
    per_second: dict[tuple[str, bool], float] = defaultdict(float)
    for (source, is_apart), share in made.items():
        stays = source == target and not is_apart
        per_second[source, stays] += plan.prediction.samples_per_second * share * used
    is_for_trainer = task is Task.ACTOR_TRAINING
    aim = "" if is_for_trainer else f" for {LOOKS[task].words}"
    for (source, stays), samples in per_second.items():
        if is_for_trainer or source != target:
            yield RegionFlow(
                kind=FlowKind.TRAJECTORIES,
                source=source,
                target=target,
                stays=stays,
                amount=f"{rate(samples)} samples/s{aim}",
            )


def _work(plan: Plan, task: Task, places: Places) -> Work:
    """Return where a task is done; a replica counts where its first stage is."""
    shares: Work = defaultdict(float)
    for group in plan.groups_with(task):
        for replica in group.replicas:
            card = places.card(replica.shares[0].machine)
            shares[card.region, card.generates_only] += replica.work_share
    whole = sum(shares.values()) or 1.0
    return {place: share / whole for place, share in shares.items()}


def _gradients(plan: Plan, places: Places) -> Iterator[RegionFlow]:
    """Yield sums that cross regions: replicas of a stage stand in several."""
    for task in (task for task in LOOKS if task in TRAINING_TASKS):
        replicas = [
            [places.region(machine) for machine in machines]
            for group in plan.groups_with(task)
            for machines in stage_machines(group)
        ]
        pairs = {
            pair: None
            for regions in zip(*replicas, strict=True)
            for pair in pairwise(sorted(set(regions)))
        }
        for source, target in pairs:
            yield RegionFlow(
                kind=FlowKind.GRADIENTS,
                source=source,
                target=target,
                is_mutual=True,
                amount=f"of {LOOKS[task].words}",
            )


def _paired(found: Sequence[RegionFlow]) -> Iterator[RegionFlow]:
    left = list(dict.fromkeys(found))
    while left:
        flow = left.pop(0)
        back = replace(flow, source=flow.target, target=flow.source)
        if flow.source != flow.target and back in left:
            left.remove(back)
            flow = replace(flow, is_mutual=True)
        yield flow
