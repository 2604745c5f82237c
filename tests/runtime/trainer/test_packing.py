"""Passes without padding and with each prompt once, beside the same rows one by one."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoConfig

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.trainer.batch import Batch, collate, packed_passes
from hetrl_runtime.trainer.layers import packing
from hetrl_runtime.trainer.model.model import Policy
from tests.runtime.trainer.architectures import save_random
from tests.runtime.trainer.scores import scores_of
from tests.runtime.trainer.trajectories import a_trajectory

CPU = torch.device("cpu")
GROUP_SIZE = 3


def a_batch(lengths: list[tuple[int, list[int]]]) -> Batch:
    """Groups of a prompt's length and its responses'; all tokens random."""
    generator = torch.Generator().manual_seed(7)

    def tokens(count: int) -> list[int]:
        return torch.randint(3, 98, (count,), generator=generator).tolist()

    rows = []
    for group, (prompt_length, responses) in enumerate(lengths):
        prompt = tokens(prompt_length)
        rows += [
            a_trajectory(group=group, member=member, prompt=prompt, response=tokens(length))
            for member, length in enumerate(responses)
        ]
    return collate(rows, rewards=[0.0] * len(rows))


def packed(batch: Batch, *, num_places: int = 0) -> packing.Pack:
    return packing.pack(
        batch.is_token_BT,
        batch.prompts_B,
        num_response=batch.num_response_positions,
        num_places=num_places,
    )


def scores_and_gradients(policy: Policy, batch: Batch) -> tuple[Tensor, Tensor]:
    policy.stage.zero_grad()
    scores = scores_of(policy, batch).log_probs_BR[batch.mask_BR]
    torch.autograd.backward(scores.mean())
    return scores.detach(), torch.cat([each.grad.flatten() for each in policy.stage.parameters()])


@pytest.mark.parametrize("family", ["Qwen2.5", "Qwen3, tied", "Llama"])
def test_scores_and_gradients_are_those_of_padded_rows(family: str, tmp_path: Path) -> None:
    folder = save_random(family, tmp_path)
    policy = Policy(ModelFiles(source=str(folder)), device=CPU, temperature=0.8)
    batch = a_batch([(9, [3, 3, 1]), (2, [7, 40, 1]), (9, [3, 12, 5]), (1, [4, 4, 4])])
    assert policy.stage.is_packed

    scores, gradients = scores_and_gradients(policy, batch)
    policy.stage.is_packed = False
    expected_scores, expected_gradients = scores_and_gradients(policy, batch)

    torch.testing.assert_close(scores, expected_scores, rtol=0, atol=1e-5)
    torch.testing.assert_close(gradients, expected_gradients, rtol=0, atol=1e-5)


@settings(max_examples=25)
@given(
    lengths=st.lists(
        st.tuples(st.integers(1, 5), st.lists(st.integers(1, 6), min_size=1, max_size=4)),
        min_size=1,
        max_size=6,
    ),
    num_blank=st.integers(0, 3),
)
def test_pack_has_every_token_once_and_a_shared_prompt_once(
    lengths: list[tuple[int, list[int]]], num_blank: int
) -> None:
    batch = a_batch(lengths)
    found = packed(batch, num_places=batch.num_places + num_blank)

    assert len(found.tokens_N) == batch.num_places + num_blank
    assert found.num_blank == num_blank
    kept = found.tokens_N[: batch.num_places]
    assert len(kept.unique()) == len(kept)
    assert batch.is_token_BT.flatten()[kept].all()
    # What is scored is every response token, each from the place of the token before it.
    assert found.responses_S.sort().values.equal(batch.mask_BR.flatten().nonzero()[:, 0])
    following = batch.responses_BR.flatten()[found.responses_S]
    for place, number, token in zip(found.scored_S, found.responses_S, following, strict=True):
        row, column = divmod(int(number), batch.num_response_positions)
        own = batch.tokens_BT[row][batch.is_token_BT[row]]
        position = int(batch.is_token_BT[row].sum() - batch.mask_BR[row].sum()) + column
        assert own[position] == token
        assert own[position - 1] == batch.tokens_BT.flatten()[found.tokens_N[place]]
        assert found.positions_N[place] == position - 1


def test_last_token_takes_no_place() -> None:
    batch = a_batch([(2, [1, 3]), (2, [1, 1])])

    found = packed(batch)

    assert [(run.num_rows, run.length, run.num_keys) for run in found.runs] == [
        (2, 2, 2),
        (1, 2, 4),
    ]
    # Both prompts; then the second row's response, but for its end.
    assert found.tokens_N.tolist() == [0, 1, 10, 11, 7, 8]
    assert found.responses_S.tolist() == [0, 6, 9, 3, 4, 5]
    assert found.scored_S.tolist() == [1, 3, 3, 1, 4, 5]


def test_members_of_a_group_share_a_pass_while_possible() -> None:
    batch = a_batch([(10, [2] * 4)] * 3)
    shuffled = torch.randperm(len(batch), generator=torch.Generator().manual_seed(1))

    parts = [
        batch.groups_B[part].tolist() for part in packed_passes(batch, shuffled, max_tokens=18)
    ]

    assert sorted(parts) == [[group] * 4 for group in range(3)]


def test_kernels_for_variable_lengths_get_the_same_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No GPU here: its definition replaces the kernel, on the same arguments."""
    batch = a_batch([(4, [2, 5]), (1, [3]), (4, [2, 1])])
    pack = packed(batch, num_places=batch.num_places + 2)
    kernel = packing.kernel_of(pack.runs, CPU)
    monkeypatch.setattr(packing, "varlen_attn", defined_varlen)
    monkeypatch.setattr(packing, "KERNEL_DTYPE", torch.float64)
    query = torch.randn(1, 4, len(pack.tokens_N), 8, dtype=torch.float64)
    key, value = torch.randn(2, 1, 2, len(pack.tokens_N), 8, dtype=torch.float64)

    found, _ = packing.attend(
        None, query, key, value, None, scaling=0.3, pack=replace(pack, kernel=kernel)
    )

    expected, _ = packing.attend(None, query, key, value, None, scaling=0.3, pack=pack)
    torch.testing.assert_close(found, expected)


def defined_varlen(  # noqa: PLR0917  # as the kernel has them
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_ends: Tensor,
    key_ends: Tensor,
    longest_query: int,
    longest_key: int,
    *,
    window_size: tuple[int, int],
    scale: float,
    enable_gqa: bool,
) -> Tensor:
    """What torch.nn.attention.varlen says that it computes."""
    assert window_size == (-1, 0)
    assert enable_gqa
    assert longest_query == query_ends.diff().max()
    assert longest_key == key_ends.diff().max()
    groups = query.shape[1] // key.shape[1]
    found = []
    for row in range(len(query_ends) - 1):
        mine = query[query_ends[row] : query_ends[row + 1]]
        keys, values = (
            each[key_ends[row] : key_ends[row + 1]].repeat_interleave(groups, 1)
            for each in (key, value)
        )
        weights = scale * torch.einsum("qhd,khd->hqk", mine, keys)
        hidden = torch.ones(len(mine), len(keys)).tril(len(keys) - len(mine)) == 0
        weights = weights.masked_fill(hidden, -math.inf).softmax(-1)
        found.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.cat(found)


def test_kernel_accepts_its_arguments() -> None:
    with FakeTensorMode():
        query, key, value = (torch.empty(7, heads, 64, dtype=torch.bfloat16) for heads in (4, 2, 2))
        ends = torch.tensor([0, 3, 7], dtype=torch.int32)
        found = packing.varlen_attn(
            query, key, value, ends, ends, 4, 4, window_size=(-1, 0), scale=0.1, enable_gqa=True
        )
    assert found.shape == query.shape


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({}, "", id="full attention"),
        pytest.param(
            {"attn_logit_softcapping": 50.0},
            "it caps the products of queries and keys",
            id="caps",
        ),
        pytest.param(
            {"layer_types": None, "sliding_window": 8}, "its layers see 8 tokens", id="one window"
        ),
        pytest.param({"sliding_window": 8}, "", id="window that no layer has"),
        pytest.param(
            {"layer_types": ["full_attention", "sliding_attention"]},
            "it has layers of sliding_attention",
            id="windows",
        ),
    ],
)
def test_models_that_are_padded_say_why(changes: dict[str, object], reason: str) -> None:
    config = AutoConfig.for_model("qwen3")
    for name, value in changes.items():
        setattr(config, name, value)
    assert packing.reason_against(config) == reason
