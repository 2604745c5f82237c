from collections.abc import Callable

import pytest

from hetrl_cli.picture.cards import cards
from hetrl_cli.picture.flows import FlowKind, Hop, RegionFlow, flows, hops
from hetrl_cli.tables.plan import duration
from hetrl_core.task import Task
from tests.cli.picture.plans import (
    JOB,
    PREDICTION,
    Case,
    a_case,
    group,
    pipelines,
    shared,
    ten_thousand,
    together,
    two_regions,
)

TRAIN = Task.ACTOR_TRAINING


def flows_of(case: Case) -> tuple[RegionFlow, ...]:
    found = cards(case.plan, case.fleet)
    return flows(case.plan, case.fleet, case.job, cards=found, hops=hops(case.plan, found))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(pipelines, [(n, n + 1, 8) for n in range(1, 6)], id="one stage a machine"),
        pytest.param(ten_thousand, [(0, 1, 160), (1, 2, 160)], id="alike machines"),
        pytest.param(two_regions, [(2, 0, 6)], id="to another region"),
        pytest.param(shared, [], id="inside a machine"),
    ],
)
def test_hops_are_counted_from_card_to_card(
    make: Callable[[], Case], expected: list[tuple[int, int, int]]
) -> None:
    case = make()
    assert hops(case.plan, cards(case.plan, case.fleet)) == tuple(
        Hop(task=TRAIN, source=source, target=target, num_replicas=number)
        for source, target, number in expected
    )


def test_flows_across_and_inside_regions_differ() -> None:
    weight_bytes = 2 * JOB.model.architecture.num_parameters if JOB.model.architecture else 0
    inside = f"{duration(50e-6 + weight_bytes / 12.5e9)} a version"
    from_ohio = f"{duration(5e-3 + 16 / 36 * weight_bytes / 0.625e9)} a version"
    from_virginia = f"{duration(5e-3 + 20 / 36 * weight_bytes / 0.625e9)} a version"

    said = {
        (flow.kind, flow.source, flow.target, flow.stays): flow.amount
        for flow in flows_of(two_regions())
    }
    assert said == {
        (FlowKind.TRAJECTORIES, "Ohio", "Ohio", False): "64.00 samples/s",
        (FlowKind.TRAJECTORIES, "Virginia", "Ohio", False): "16.00 samples/s",
        (FlowKind.WEIGHTS, "Ohio", "Ohio", False): f"16 of 36 layers, {inside}",
        (FlowKind.WEIGHTS, "Virginia", "Ohio", False): f"20 of 36 layers, {from_virginia}",
        (FlowKind.WEIGHTS, "Ohio", "Virginia", False): f"16 of 36 layers, {from_ohio}",
        (FlowKind.WEIGHTS, "Virginia", "Virginia", True): f"20 of 36 layers, {inside}",
        (FlowKind.PIPELINE, "Ohio", "Virginia", False): "actor training, \N{MULTIPLICATION SIGN}6",
    }


def test_weights_are_resharded_on_shared_gpus() -> None:
    (weights,) = [flow for flow in flows_of(shared()) if flow.kind is FlowKind.WEIGHTS]
    assert weights.stays
    assert weights.amount == f"resharded, {duration(PREDICTION.weight_sync_seconds)} at most"


def test_rollouts_on_machines_of_their_own_send_to_the_trainer() -> None:
    assert [(flow.kind, flow.stays) for flow in flows_of(together())] == [
        (FlowKind.TRAJECTORIES, False),
        (FlowKind.WEIGHTS, False),
    ]


def test_gradients_that_cross_regions_flow_both_ways() -> None:
    case = a_case(
        {"paris-a100-0": ("Paris", 2), "london-a100-0": ("London", 1)},
        [
            group(TRAIN, [[("paris-a100-0", 1)], [("london-a100-0", 1)]]),
            group(Task.ACTOR_GENERATION, [[("paris-a100-0", 1)]]),
        ],
    )
    (gradients,) = [flow for flow in flows_of(case) if flow.kind is FlowKind.GRADIENTS]
    assert gradients.is_mutual
    assert {gradients.source, gradients.target} == {"London", "Paris"}


def test_remote_critic_gets_the_trajectories_too() -> None:
    case = a_case(
        {"here-a100-0": ("here", 2), "there-a100-0": ("there", 1)},
        [
            group(TRAIN, [[("here-a100-0", 1)]]),
            group(Task.ACTOR_GENERATION, [[("here-a100-0", 1)]]),
            group(Task.CRITIC_TRAINING, [[("there-a100-0", 1)]]),
        ],
    )
    crossing = [flow for flow in flows_of(case) if flow.source != flow.target]
    assert [(flow.kind, flow.target, flow.amount) for flow in crossing] == [
        (FlowKind.TRAJECTORIES, "there", "80.00 samples/s for critic training")
    ]
