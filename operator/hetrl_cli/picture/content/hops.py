"""Hops of activations from one machine to that of the next pipeline stage."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from hetrl_cli.picture.content.cards import Card
from hetrl_cli.picture.content.duties import stage_machines
from hetrl_cli.picture.content.movement import FlowKind, Hop, RegionFlow
from hetrl_cli.picture.content.palette import LOOKS, TIMES
from hetrl_cli.picture.content.places import Places
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task


def hops(plan: Plan, cards: Sequence[Card]) -> tuple[Hop, ...]:
    """Return all hops from card to card; a replica counts as often as it takes the way."""
    places = Places(cards)
    counts = Counter(
        (task, places.number(source), places.number(target))
        for task, source, target in _moves(plan)
    )
    return tuple(
        Hop(task=task, source=source, target=target, num_replicas=number)
        for (task, source, target), number in counts.items()
        if source != target
    )


def pipelines(hops: Sequence[Hop], cards: Sequence[Card]) -> Iterator[RegionFlow]:
    """Yield the hops from one region to another."""
    counts: Counter[tuple[Task, str, str]] = Counter()
    for hop in hops:
        counts[hop.task, cards[hop.source].region, cards[hop.target].region] += hop.num_replicas
    for (task, source, target), number in counts.items():
        if source != target:
            yield RegionFlow(
                kind=FlowKind.PIPELINE,
                source=source,
                target=target,
                task=task,
                amount=f"{LOOKS[task].words}, {TIMES}{number}",
            )


def _moves(plan: Plan) -> Iterator[tuple[Task, str, str]]:
    for group in plan.groups:
        for machines in stage_machines(group):
            for source, target in pairwise(machines):
                yield group.tasks[0], source, target
