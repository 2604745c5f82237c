"""Screening of genomes that cannot fit, and of duplicates."""

from dataclasses import replace

import numpy as np
import pytest

from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.genome.groupings import groupings
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from tests.planner.oracle.instances import Instance, instance

SEEDS = (1033, 1045)
"""Of fleets so tight that most genomes fit nowhere."""

DRAWN = 100


def drawn_genomes(drawn: Instance, rng: np.random.Generator) -> list[Genome]:
    """Return packed genomes with any GPUs for any groups."""
    every = list(groupings(drawn.work.tasks))
    sizes = drawn.devices.machine_sizes
    found = []
    for _ in range(DRAWN):
        grouping = every[int(rng.integers(len(every)))]
        chances = np.full(len(grouping) + 1, 1 / (len(grouping) + 1))
        rows = tuple(tuple(rng.multinomial(size, chances)[:-1].tolist()) for size in sizes)
        order = tuple(rng.permutation(len(sizes)).tolist())
        found.append(Genome(grouping=grouping, counts=rows, order=order, is_packed=True))
    return found


def seconds_of(genome: Genome, evaluator: Evaluator, decoder: Decoder) -> float | None:
    layout = decoder.decode(genome)
    found = layout and evaluator.evaluate(layout)
    return found.step_seconds if isinstance(found, Evaluation) else None


@pytest.mark.parametrize("seed", SEEDS)
def test_screen_refuses_nothing_that_fits(seed: int) -> None:
    drawn = instance(seed, algorithm="PPO", is_synchronous=False, max_gpus=5)
    evaluator = Evaluator(drawn.work, drawn.devices)
    decoder = Decoder(evaluator)
    genomes = drawn_genomes(drawn, np.random.default_rng(seed))
    refused = [each for each in genomes if not decoder.screen.may_fit(each)]
    assert len(refused) > DRAWN / 4, "the fleet is not tight: this test tells nothing"
    assert not any(seconds_of(each, evaluator, decoder) for each in refused)


@pytest.mark.parametrize("seed", SEEDS)
def test_genome_takes_as_long_without_what_packing_decides(seed: int) -> None:
    drawn = instance(seed, algorithm="PPO", is_synchronous=False, max_gpus=5)
    evaluator = Evaluator(drawn.work, drawn.devices)
    decoder = Decoder(evaluator)
    genomes = drawn_genomes(drawn, np.random.default_rng(seed))
    timed = [(seconds_of(each, evaluator, decoder), each) for each in genomes]
    fitting = [(seconds, each) for seconds, each in timed if seconds]
    assert fitting
    for seconds, genome in fitting:
        plain = decoder.screen.plain(genome)
        assert seconds_of(plain, evaluator, decoder) == pytest.approx(seconds, rel=1e-9)


def test_genomes_that_differ_by_which_model_scores_where_are_one() -> None:
    drawn = instance(1049, algorithm="PPO", is_synchronous=False, max_gpus=5)
    decoder = Decoder(Evaluator(drawn.work, drawn.devices))
    scoring = (Task.REFERENCE_INFERENCE, Task.REWARD_INFERENCE, Task.CRITIC_INFERENCE)
    machines = range(drawn.devices.num_machines)
    counts = tuple((1, 0) if machine else (0, 1) for machine in machines)
    found = set()
    for alone in scoring:
        others = tuple(task for task in Task if task is not alone)
        genome = Genome(
            grouping=(others, (alone,)), counts=counts, order=tuple(machines), is_packed=True
        )
        found.add(decoder.screen.plain(genome))
        found.add(decoder.screen.plain(replace(genome, order=genome.order[::-1])))
    assert len(found) == 1
