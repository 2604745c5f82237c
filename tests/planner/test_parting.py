"""Starts of other groupings, derived from a plan."""

import pytest

from hetrl_core.plan.plan import TrainingMode
from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.genome import Counts, Cut, Genome
from hetrl_planner.hetrl.genome.groupings import Grouping
from hetrl_planner.hetrl.search.regroup import parted
from hetrl_planner.layout.devices import Devices
from hetrl_planner.phase1.space import space_of
from tests.builders import a_fleet, a_job

GENERATES = (Task.ACTOR_GENERATION,)
REFERENCE = (Task.REFERENCE_INFERENCE,)
TRAINS = (Task.ACTOR_TRAINING,)

TOGETHER: Grouping = (GENERATES, (*REFERENCE, *TRAINS))
APART: Grouping = (GENERATES, REFERENCE, TRAINS)


def devices() -> Devices:
    space = space_of(a_fleet(a100=8, l4=4), a_job(), runnable_only=True)
    return Devices(snapshot=space.snapshot, sites=space.sites)


def a_genome(counts: Counts, grouping: Grouping = TOGETHER) -> Genome:
    cut = Cut(tensor=2, num_stages=1, mode=TrainingMode(), is_striped=False)
    return Genome(
        grouping=grouping, counts=counts, order=(0, 1), cuts=((Task.ACTOR_TRAINING, cut),)
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param(
            ((2, 6), (0, 0)),
            [((2, 0, 6), (0, 4, 0)), ((2, 3, 3), (0, 4, 0))],
            id="on idle GPUs, and on half of the trainer's",
        ),
        pytest.param(
            ((2, 6), (0, 4)),
            [((2, 3, 3), (0, 0, 4)), ((2, 0, 6), (0, 2, 2))],
            id="of each site some",
        ),
        pytest.param(((8, 0), (3, 1)), [], id="a trainer that has nothing to give"),
    ],
)
def test_scoring_is_put_on_gpus_of_its_own(counts: Counts, expected: list[Counts]) -> None:
    found = list(parted(a_genome(counts), APART, devices()))
    assert [each.counts for each in found] == expected
    assert all(each.grouping == APART and not each.cuts for each in found)


CRITIC = (Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING)
WITH_A_CRITIC: Grouping = (
    GENERATES,
    (*REFERENCE, Task.CRITIC_INFERENCE, *TRAINS, Task.CRITIC_TRAINING),
)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param(
            ((2, 6), (0, 4)),
            [
                ((2, 3, 3), (0, 0, 4)),
                ((2, 0, 6), (0, 2, 2)),
                ((2, 6, 0), (0, 0, 4)),
                ((2, 0, 6), (0, 4, 0)),
                ((2, 5, 1), (0, 0, 4)),
            ],
            id="half of each site's, all of a site's, half of all",
        ),
        pytest.param(((8, 0), (3, 1)), [], id="a trainer that has nothing to give"),
    ],
)
def test_critic_is_put_on_gpus_of_its_own(counts: Counts, expected: list[Counts]) -> None:
    apart: Grouping = (GENERATES, CRITIC, (*REFERENCE, *TRAINS))
    apart = tuple(sorted(apart, key=lambda group: list(Task).index(group[0])))
    found = list(parted(a_genome(counts, WITH_A_CRITIC), apart, devices()))
    critic = apart.index(CRITIC)
    for each in found:
        assert each.grouping == apart
    rows = [tuple((row[0], row[critic], row[3 - critic]) for row in each.counts) for each in found]
    assert rows == expected


def test_critic_and_reference_are_put_on_gpus_of_their_own() -> None:
    apart: Grouping = (GENERATES, REFERENCE, CRITIC, TRAINS)
    found = list(parted(a_genome(((2, 6), (0, 0)), WITH_A_CRITIC), apart, devices()))
    assert [each.counts for each in found] == [
        ((2, 0, 3, 3), (0, 4, 0, 0)),
        ((2, 2, 3, 1), (0, 4, 0, 0)),
    ]
    assert all(each.grouping == apart for each in found)


ALL_IN_ONE: Grouping = ((*GENERATES, *REFERENCE, *TRAINS),)


@pytest.mark.parametrize(
    ("grouping", "counts"),
    [
        pytest.param(ALL_IN_ONE, ((8,), (4,)), id="all that both have"),
        pytest.param(
            ((*GENERATES, *REFERENCE), TRAINS), ((2, 6), (0, 4)), id="each what it had before"
        ),
    ],
)
def test_groups_have_their_own_gpus_where_none_is_added(grouping: Grouping, counts: Counts) -> None:
    (found,) = parted(a_genome(((2, 6), (0, 4))), grouping, devices())
    assert found.grouping == grouping
    assert found.counts == counts
    assert not found.cuts


def test_generation_leaves_an_all_in_one_trainer_half_the_gpus() -> None:
    found = list(parted(a_genome(((8,), (4,)), ALL_IN_ONE), TOGETHER, devices()))
    assert {each.grouping for each in found} == {TOGETHER}
    assert ((4, 4), (0, 4)) in [each.counts for each in found]
    assert ((8, 0), (0, 4)) in [each.counts for each in found]
