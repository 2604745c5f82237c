"""The two sides of a region: machines that only generate, and all others, with what they do."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_cli.picture.content.cards import Card
from hetrl_cli.picture.content.movement import Hop
from hetrl_cli.picture.content.palette import LOOKS, TIMES
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task

NumberedCard = tuple[int, Card]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """A region's cards by what they do."""

    rollouts: tuple[NumberedCard, ...]
    others: tuple[NumberedCard, ...]
    unused: tuple[Card, ...]


def sides(cards: Sequence[Card], region: str, hops: Sequence[Hop]) -> Sides:
    """Return a region's cards, along the pipelines where there are any.

    Where a replica stands on both sides they are one: its hops would cross all that flows
    between them.
    """
    here = [(number, card) for number, card in enumerate(cards) if card.region == region]
    used = sorted((pair for pair in here if pair[1].tasks), key=_along)
    apart = _rollouts_apart(used, hops)
    return Sides(
        rollouts=tuple(pair for pair in used if pair[0] in apart),
        others=tuple(pair for pair in used if pair[0] not in apart),
        unused=tuple(card for _, card in here if not card.tasks),
    )


def _rollouts_apart(used: Sequence[NumberedCard], hops: Sequence[Hop]) -> set[int]:
    """Return the cards that only generate; none if a hop connects one of them to another card."""
    apart = {number for number, card in used if card.generates_only}
    others = {number for number, _ in used} - apart
    return set() if any(_connects(hop, apart, others) for hop in hops) else apart


def _connects(hop: Hop, some: set[int], others: set[int]) -> bool:
    ends = {hop.source, hop.target}
    return bool(ends & some and ends & others)


def _along(pair: NumberedCard) -> tuple[tuple[int, int, int], int]:
    """Order cards by their first stage of training, and by replicas where those are equal."""
    number, card = pair
    order = (Task.ACTOR_TRAINING, Task.CRITIC_TRAINING)
    places = [
        (order.index(duty.task) if duty.task in order else 2, duty.stage, duty.replica)
        for cell in card.cells
        for duty in cell.duties
    ]
    return min(places, default=(3, 0, 0)), number


def title(cards: Sequence[NumberedCard]) -> str:
    """Name what machines are there for."""
    tasks = frozenset(task for _, card in cards for task in card.tasks)
    words = [
        word
        for word, task in (("Trainer", Task.ACTOR_TRAINING), ("Rollouts", Task.ACTOR_GENERATION))
        if task in tasks
    ]
    if tasks & {Task.CRITIC_TRAINING, Task.CRITIC_INFERENCE}:
        words.append("Critic")
    return ", ".join([words[0], *(word.lower() for word in words[1:])]) if words else "Scoring"


def lines(plan: Plan, cards: Sequence[NumberedCard]) -> list[str]:
    """Say each task's replicas and splits on these machines: ``actor training: 8 x tp1·pp6``."""
    names = {name for _, card in cards for name in card.machines}
    found = []
    for task in (task for task in LOOKS if any(task in card.tasks for _, card in cards)):
        counts: Counter[str] = Counter()
        for group in plan.groups_with(task):
            counts[str(group.parallelism)] += sum(
                any(share.machine in names for share in replica.shares)
                for replica in group.replicas
            )
        said = " + ".join(f"{number} {TIMES} {split}" for split, number in counts.items() if number)
        found.append(f"{LOOKS[task].letter}  {LOOKS[task].words}: {said}")
    return found
