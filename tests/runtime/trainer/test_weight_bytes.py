"""Files of weights beside those that the library writes of the same tensors."""

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from hetrl_runtime.trainer.weight_bytes import to_safetensors

NAMES = st.text(min_size=1, max_size=12).filter(lambda name: name != "__metadata__")
DTYPES = st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16])
SHAPES = st.lists(st.integers(0, 4), max_size=3)


@given(st.dictionaries(NAMES, st.tuples(DTYPES, SHAPES), max_size=6))
def test_a_file_is_byte_for_byte_the_librarys(
    asked: dict[str, tuple[torch.dtype, list[int]]],
) -> None:
    tensors = {name: torch.randn(shape).to(dtype) for name, (dtype, shape) in asked.items()}

    found = to_safetensors(tensors)

    assert found == safetensors.torch.save(tensors, metadata={"format": "pt"})


def test_numbers_of_no_model_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"layer\.mask: weights of torch\.bool"):
        to_safetensors({"layer.mask": torch.ones(2, dtype=torch.bool)})
