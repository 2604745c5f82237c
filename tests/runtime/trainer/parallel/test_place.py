from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.plan.pod_sets import Rank
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_core.task import Task
from hetrl_runtime.trainer.parallel.place import Place, dealt

SPLIT = TrainingSplit(shares=(1.0, 1.0), stage_layers=(3, 1), tensor=2)
RANK = Rank(ordinal=0, local_gpu=0, task=Task.ACTOR_TRAINING, replica=1, stage=1, tensor_rank=0)


def test_ranks_number_all_places_once_tensor_ranks_together() -> None:
    places = [
        Place(split=SPLIT, replica=replica, stage=stage, tensor_rank=tensor)
        for replica, stage, tensor in product(range(2), range(2), range(2))
    ]
    assert [place.rank for place in places] == list(range(SPLIT.num_ranks))


def test_place_is_what_the_rank_table_says() -> None:
    place = Place.of(RANK, SPLIT)
    assert (place.rank, place.is_first_stage, place.is_last_stage, place.speaks) == (
        6,
        False,
        True,
        True,
    )
    assert place.layers(4) == range(3, 4)


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        (replace(RANK, replica=2), r"replica 2 is not among the 2"),
        (replace(RANK, stage=2), r"stage 2 is not among the 2"),
        (replace(RANK, tensor_rank=-1), r"tensor rank -1 is not among the 2"),
    ],
)
def test_rank_without_a_place_is_refused(rank: Rank, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Place.of(rank, SPLIT)


def test_stages_must_have_the_models_layers() -> None:
    with pytest.raises(ValueError, match=r"stages of \(3, 1\) layers; the model has 5"):
        Place(split=SPLIT).layers(5)


def test_equal_shares_are_dealt_in_turn() -> None:
    first, second = dealt(torch.tensor([7, 3, 9, 4, 1]), (1.0, 1.0))
    assert (first.tolist(), second.tolist()) == ([7, 9, 1], [3, 4])


@given(
    count=st.integers(0, 60),
    shares=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5).map(tuple),
)
def test_rows_go_to_one_replica_in_exact_shares(count: int, shares: tuple[float, ...]) -> None:
    parts = dealt(torch.arange(count), shares)
    assert sorted(torch.cat(parts).tolist()) == list(range(count))
    for part, share in zip(parts, shares, strict=True):
        assert abs(len(part) - count * share / sum(shares)) < len(shares)
