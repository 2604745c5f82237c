"""Time to score trajectories: each stage's turn by hand, and the pace of the pipeline."""

import pytest

from hetrl_core.plan.plan import Parallelism
from hetrl_planner.cost import compute
from hetrl_planner.cost.inference import Pace, hidden_bytes, inference_pace, pace_of
from hetrl_planner.cost.network import Channel, all_reduce_seconds, inside_machine
from hetrl_planner.cost.stage import PlacedStage, uniform_stages
from hetrl_planner.problem.workload import workload
from tests.builders import ARCHITECTURES, a_job, a_kind

MODEL = ARCHITECTURES["Qwen3-8B"]
WORK = workload(a_job(), MODEL)
KIND = a_kind("A100-80GB")
WIRE = Channel(bytes_per_second=1e9, latency_seconds=0.5)
HIDDEN_BYTES = WORK.sample_tokens * 4096 * 2
"""bf16 values of one trajectory."""


def stages(*num_layers: int, tensor: int = 1) -> tuple[PlacedStage, ...]:
    return uniform_stages(MODEL, Parallelism(tensor=tensor, stage_layers=num_layers), KIND, WIRE)


def forward_seconds(stage: PlacedStage) -> float:
    tokens = WORK.sample_tokens
    flops = compute.forward_flops(stage.shard, tokens=tokens, context_tokens=tokens / 2)
    return compute.flop_seconds(flops, KIND)


def test_trajectory_is_handed_on_as_bf16_hidden_states() -> None:
    assert hidden_bytes(WORK) == HIDDEN_BYTES


def test_single_gpu_scores_at_the_rate_of_its_forward_pass() -> None:
    (stage,) = stages(36)
    assert inference_pace(WORK, [stage]) == Pace(
        slot_seconds=forward_seconds(stage), fixed_seconds=0.0
    )


def test_tensor_ranks_reduce_twice_a_layer() -> None:
    (stage,) = stages(36, tensor=4)
    once = all_reduce_seconds(HIDDEN_BYTES, members=4, channel=inside_machine(KIND))
    assert inference_pace(WORK, [stage]).slot_seconds == pytest.approx(
        forward_seconds(stage) + 2 * 36 * once
    )


def test_stage_before_the_last_sends_its_hidden_states_on() -> None:
    first, last = stages(18, 18)
    hop = 0.5 + HIDDEN_BYTES / 1e9
    turns = [forward_seconds(first) + hop, forward_seconds(last)]
    assert inference_pace(WORK, [first, last]) == Pace(
        slot_seconds=pytest.approx(max(turns)), fixed_seconds=pytest.approx(min(turns))
    )


@pytest.mark.parametrize(
    ("sequences", "seconds"),
    [(0, 0.0), (1, 2.0 + 3.0 + 1.0), (4, 3 * 3.0 + 2.0 + 3.0 + 1.0)],
)
def test_pipeline_adds_its_slowest_stage_for_each_further_sequence(
    sequences: int, seconds: float
) -> None:
    assert pace_of([2.0, 3.0, 1.0]).seconds(sequences) == pytest.approx(seconds)
