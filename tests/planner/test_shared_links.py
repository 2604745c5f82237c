"""Links and network cards that several pipelines use at once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.fleet.snapshot import ClusterSnapshot, Link
from hetrl_core.job.spec import ResourcesSpec
from hetrl_core.plan.plan import Recompute, Sharding, TrainingMode
from hetrl_core.task import Task
from hetrl_planner.cost.inference import hidden_bytes
from hetrl_planner.cost.network import hop_sharing
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.layout import PipelineStage, TaskLayout
from hetrl_planner.problem.sites import sites
from hetrl_planner.problem.workload import Workload, workload
from tests.builders import ARCHITECTURES, a_fleet, a_job, both

MODEL = ARCHITECTURES["Qwen3-8B"]
WORK = workload(a_job("Qwen3-8B", global_batch_size=512), MODEL)
MODE = TrainingMode(recompute=Recompute.NONE, sharding=Sharding.OPTIMIZER)
GBIT = 1e9 / 8


def two_machines(gbps: float, *, regions: tuple[str, str] = ("east", "west")) -> ClusterSnapshot:
    link = Link(
        source=regions[0],
        target=regions[1],
        bytes_per_second=gbps * GBIT,
        latency_seconds=0.005,
    )
    east, west = (a_fleet(a100_80=8, region=region) for region in regions)
    if regions[0] == regions[1]:
        east = replace(
            east, machines=tuple(replace(each, name="a100-other") for each in east.machines)
        )
    return both(east, west, links=(link,))


def pipelines(number: int) -> TaskLayout:
    """Pipelines of two stages, on the first GPUs of two machines of eight."""
    return TaskLayout(
        Task.ACTOR_TRAINING,
        tuple((PipelineStage((gpu,), 18), PipelineStage((8 + gpu,), 18)) for gpu in range(number)),
        MODE,
    )


def trained(snapshot: ClusterSnapshot, number: int, work: Workload = WORK) -> float:
    devices = Devices(snapshot=snapshot, sites=sites(snapshot, ResourcesSpec()))
    return Evaluator(work, devices).training_seconds(pipelines(number))


@pytest.mark.parametrize("gbps", [10, 5, 2, 1, 0.5])
@pytest.mark.parametrize("regions", [("east", "west"), ("east", "east")], ids=["link", "card"])
def test_pipelines_take_as_long_as_all_their_messages(
    gbps: float, regions: tuple[str, str]
) -> None:
    # Forward, back, and forward once more for the proximal policy.
    floor = 3 * WORK.batch_size * hidden_bytes(WORK) / (gbps * GBIT)
    assert trained(two_machines(gbps, regions=regions), 8) >= floor


@given(number=st.integers(1, 8), gbps=st.floats(0.1, 200))
def test_pipelines_together_stay_within_link_and_cards(number: int, gbps: float) -> None:
    hops = [(("a", "east"), ("b", "west"))] * number
    parts = hop_sharing(two_machines(gbps), hops)
    used = sum(gbps * GBIT / each for each in parts)
    assert used <= min(gbps * GBIT, 12.5e9) * (1 + 1e-9)


def test_latency_is_paid_once_a_pipeline_not_a_sequence() -> None:
    slow = two_machines(100)
    far = replace(slow, links=tuple(replace(each, latency_seconds=1.0) for each in slow.links))
    # There and back for each minibatch, and in the gather and the gradients' ring once more.
    assert trained(far, 1) - trained(slow, 1) < 10


@pytest.mark.parametrize(
    ("hops", "parts"),
    [
        pytest.param([("a", "a")], [1.0], id="inside-a-machine"),
        pytest.param([("a", "b"), ("a", "c")], [2.0, 2.0], id="out-of-one-card"),
        pytest.param([("a", "c"), ("b", "c")], [2.0, 2.0], id="into-one-card"),
        pytest.param([("a", "b"), ("c", "d")], [1.0, 1.0], id="side-by-side"),
        pytest.param([("a", "b"), ("b", "a")], [1.0, 1.0], id="there-and-back"),
    ],
)
def test_hops_share_the_cards_of_their_machines(
    hops: list[tuple[str, str]], parts: list[float]
) -> None:
    placed = [((source, "here"), (target, "here")) for source, target in hops]
    assert hop_sharing(a_fleet(l4=1), placed) == parts
