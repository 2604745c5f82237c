"""Tensors in the bytes of a file beside what the library reads from them."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from hetrl_runtime.rollout.engines.weight_files import shapes_of, tensors_in

NAMES = st.text(min_size=1, max_size=12).filter(lambda name: name != "__metadata__")
DTYPES = st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16])
SHAPES = st.lists(st.integers(0, 4), max_size=3)


@given(st.dictionaries(NAMES, st.tuples(DTYPES, SHAPES), min_size=1, max_size=6))
@pytest.mark.slow
def test_tensors_are_those_that_the_library_reads(
    asked: dict[str, tuple[torch.dtype, list[int]]],
) -> None:
    weights = save({name: torch.randn(shape).to(dtype) for name, (dtype, shape) in asked.items()})

    found = tensors_in(memoryview(weights))

    expected = load(weights)
    assert shapes_of(found) == shapes_of(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert all(found[name].dtype is expected[name].dtype for name in expected)


def test_weights_are_not_copied() -> None:
    weights = bytearray(save({"weight": torch.ones(3)}))

    found = tensors_in(weights)["weight"]
    weights[-4:] = bytes(4)

    assert found.tolist() == [1.0, 1.0, 0.0]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
HEADERS = st.dictionaries(
    st.text(max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "dtype": st.sampled_from(["F32", "BF16"]) | ANYTHING,
            "shape": st.lists(st.integers(-2, 1 << 70), max_size=3) | ANYTHING,
            "data_offsets": st.lists(st.integers(-9, 1 << 70), max_size=4) | ANYTHING,
        },
    )
    | ANYTHING,
    max_size=3,
)


@given(HEADERS | ANYTHING, st.binary(max_size=16))
@pytest.mark.slow
def test_peer_data_is_tensors_or_refused(header: object, content: bytes) -> None:
    try:
        found = tensors_in(a_file(header, content))
    except ValueError:
        return

    # None of them reaches beyond what was sent.
    assert all(each.nbytes <= len(content) for each in found.values())


def a_file(header: object, content: bytes = bytes(8)) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content


@pytest.mark.parametrize(
    "weights",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x20", id="cut in its first number"),
        pytest.param(save({"weight": torch.ones(3)})[:-1], id="cut in its last tensor"),
        pytest.param((1 << 62).to_bytes(8, "little") + b"{}", id="a header longer than all"),
        pytest.param((2).to_bytes(8, "little") + b"[]", id="a header of another kind"),
        pytest.param(a_file({"a": 3}), id="a tensor that is a number"),
        pytest.param(a_file({"a": {"dtype": "F32", "shape": [2]}}), id="no place"),
        pytest.param(
            a_file({"a": {"dtype": "I8", "shape": [8], "data_offsets": [0, 8]}}), id="odd numbers"
        ),
        pytest.param(
            a_file({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}), id="too small"
        ),
        pytest.param(
            a_file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, "8"]}}), id="words"
        ),
        pytest.param(
            a_file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}), id="beyond all"
        ),
        pytest.param(
            a_file({"a": {"dtype": "F32", "shape": [1 << 70], "data_offsets": [0, 8]}}),
            id="too large for a number",
        ),
        pytest.param(
            a_file({"a": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]}}), id="out of step"
        ),
        pytest.param((5).to_bytes(8, "little") + b"[" * 100_000, id="no end of brackets"),
        pytest.param((100_000).to_bytes(8, "little") + b"[" * 100_000, id="brackets in brackets"),
    ],
)
def test_bytes_that_are_no_safetensors_file_are_refused(weights: bytes) -> None:
    with pytest.raises(ValueError, match=f"the weights, {len(weights)} bytes, are no safetensors"):
        tensors_in(weights)
