from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from hetrl_cli.picture.cards import MAX_CARDS, cards, uses
from hetrl_core.task import Task
from tests.cli.picture.plans import (
    CASES,
    Case,
    a_case,
    group,
    motley,
    pipelines,
    shared,
    ten_thousand,
    two_regions,
)


@pytest.mark.parametrize("make", CASES)
@pytest.mark.slow
def test_gpus_are_on_the_cards_once_with_their_tasks(make: Callable[[], Case]) -> None:
    case = make()
    found = cards(case.plan, case.fleet)

    machines = [name for card in found for name in card.machines]
    assert sorted(machines) == sorted(machine.name for machine in case.fleet.machines)
    cells = [cell for card in found for cell in card.cells]
    assert sum(cell.num_gpus for cell in cells) == case.fleet.num_gpus
    assert sum(cell.num_gpus for cell in cells if cell.tasks) == case.plan.num_gpus
    drawn: Counter[Task] = Counter()
    for cell in cells:
        drawn.update(dict.fromkeys(cell.tasks, cell.num_gpus))
    planned: Counter[Task] = Counter()
    for each in case.plan.groups:
        planned.update(dict.fromkeys(each.tasks, each.num_gpus))
    assert drawn == planned


def test_gpu_has_its_replica_stage_and_tensor_rank() -> None:
    case = a_case(
        {"a": ("local", 4), "b": ("local", 2)},
        [group(Task.ACTOR_TRAINING, [[("a", 4), ("b", 2)]], tensor=2, layers=(9, 9, 18))],
    )
    found = uses(case.plan, case.fleet)

    ranks = [
        (duty.stage, duty.tensor_rank, duty.num_layers)
        for name in ("a", "b")
        for (duty,) in found[name]
    ]
    assert ranks == [(0, 0, 9), (0, 1, 9), (1, 0, 9), (1, 1, 9), (2, 0, 18), (2, 1, 18)]


def test_shares_that_name_no_gpu_leave_those_that_do_theirs() -> None:
    case = a_case(
        {"a": ("local", 4)},
        [
            group(Task.ACTOR_GENERATION, [[("a", 1)], [("a", 1)]]),
            group(Task.ACTOR_TRAINING, [[("a", 2, 1)]], tensor=2),
        ],
    )
    found = uses(case.plan, case.fleet)["a"]

    assert [[(duty.task, duty.replica) for duty in gpu] for gpu in found] == [
        [(Task.ACTOR_GENERATION, 0)],
        [(Task.ACTOR_TRAINING, 0)],
        [(Task.ACTOR_TRAINING, 0)],
        [(Task.ACTOR_GENERATION, 1)],
    ]


def test_tasks_that_share_a_gpu_are_all_on_its_cell() -> None:
    (card,) = cards(shared().plan, shared().fleet)

    both = (Task.ACTOR_GENERATION, Task.ACTOR_TRAINING)
    training, values = (Task.ACTOR_TRAINING,), (Task.CRITIC_INFERENCE,)
    assert [cell.tasks for cell in card.cells] == [*[both] * 4, *[training] * 2, values, ()]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(
            pipelines,
            {"a100-[000-001]": 2, **{f"train-l4-{n}": 1 for n in range(6)}, "spare-l4-0": 1},
            id="one stage a machine",
        ),
        pytest.param(
            ten_thousand,
            {
                "a100-000 and 159 more": 160,
                "a100-001 and 159 more": 160,
                "a100-002 and 159 more": 160,
                "l4-[000-319]": 320,
                "more-l4-[000-479]": 480,
            },
            id="10,240 GPUs",
        ),
        pytest.param(
            two_regions,
            {"virginia-a100-0": 1, "ohio-a100-0": 1, "ohio-l4-0": 1, "tokyo-l4-0": 1},
            id="alike, in two regions",
        ),
    ],
)
def test_machines_used_alike_are_one_card(
    make: Callable[[], Case], expected: dict[str, int]
) -> None:
    found = cards(make().plan, make().fleet)
    assert {card.name: len(card.machines) for card in found} == expected


def test_gpus_are_counted_where_no_two_machines_match() -> None:
    found = cards(motley().plan, motley().fleet)

    assert len(motley().fleet.machines) > MAX_CARDS
    (card,) = found
    assert card.is_tally
    assert {cell.tasks: cell.num_gpus for cell in card.cells} == {
        (Task.ACTOR_GENERATION,): 40,
        (Task.ACTOR_TRAINING,): 50,
        (): 70,
    }


@pytest.mark.parametrize(
    "machines",
    [pytest.param((), id="unknown machine"), pytest.param((4,), id="too few GPUs")],
)
def test_plan_for_another_fleet_is_refused(machines: tuple[int, ...]) -> None:
    case = shared()
    fleet = replace(
        case.fleet,
        machines=tuple(replace(case.fleet.machines[0], num_gpus=number) for number in machines),
    )
    with pytest.raises(ValueError, match="GPUs of machine a100-0, and the fleet has"):
        uses(case.plan, fleet)
