import pytest
import torch

from hetrl_core.plan.plan import Sharding, TrainingMode
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_runtime.trainer.batch import Batch, collate
from hetrl_runtime.trainer.parallel.passes import Pass, cut
from hetrl_runtime.trainer.parallel.place import dealt
from tests.runtime.trainer.trajectories import a_trajectory

FULL = TrainingMode(sharding=Sharding.FULL)


def a_batch(count: int = 9) -> Batch:
    trajectories = [
        a_trajectory(group=index, prompt=[5] * (1 + index % 4), response=[9] * (1 + index % 3))
        for index in range(count)
    ]
    return collate(trajectories, rewards=[float(index) for index in range(count)])


def cut_for_all(split: TrainingSplit, *, max_tokens: int = 12) -> list[list[Pass]]:
    batch = a_batch()
    parts = dealt(torch.arange(len(batch)), split.shares)
    return [
        cut(batch, parts, replica, split=split, max_tokens=max_tokens)
        for replica in range(split.num_replicas)
    ]


@pytest.mark.parametrize(
    "split",
    [
        pytest.param(TrainingSplit(), id="alone"),
        pytest.param(TrainingSplit(shares=(5, 1, 1)), id="replicas"),
        pytest.param(TrainingSplit(shares=(99, 1), mode=FULL), id="sharded, one without rows"),
        pytest.param(TrainingSplit(shares=(2, 1), stage_layers=(1, 1, 1)), id="pipeline"),
        pytest.param(
            TrainingSplit(shares=(9, 1), stage_layers=(1, 1), mode=FULL), id="pipeline, sharded"
        ),
    ],
)
def test_rows_are_in_one_pass_with_their_own_tokens(split: TrainingSplit) -> None:
    batch, seen = a_batch(), []
    for each in (each for passes in cut_for_all(split) for each in passes):
        for number, row in enumerate(each.rows[: each.num_rows].tolist()):
            seen.append(row)
            here, there = each.batch.is_token_BT[number], batch.is_token_BT[row]
            assert each.batch.tokens_BT[number][here].tolist() == (
                batch.tokens_BT[row][there].tolist()
            )
            assert each.batch.mask_BR[number].sum() == batch.mask_BR[row].sum()
        assert not each.batch.mask_BR[each.num_rows :].any()
        assert each.batch.is_token_BT.any(dim=1).all()
    assert sorted(seen) == list(range(len(batch)))


def test_pipeline_passes_have_one_shape_and_fill_it() -> None:
    split = TrainingSplit(shares=(8, 1), stage_layers=(1, 1, 1))
    for passes in cut_for_all(split):
        assert len({each.batch.tokens_BT.shape for each in passes}) == 1
        assert len({each.batch.num_response_positions for each in passes}) == 1
        assert len(passes) >= split.num_stages


def test_replicas_that_gather_weights_together_make_as_many_passes() -> None:
    counts = {len(passes) for passes in cut_for_all(TrainingSplit(shares=(9, 1), mode=FULL))}
    assert len(counts) == 1


def test_passes_stay_within_memory() -> None:
    for split in (TrainingSplit(), TrainingSplit(stage_layers=(1, 1))):
        (passes,) = cut_for_all(split, max_tokens=14)
        assert all(each.batch.num_places <= 14 for each in passes)
