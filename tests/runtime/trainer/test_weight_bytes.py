"""Files of weights beside those that the library writes of the same tensors."""

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from hetrl_runtime.trainer.model.weight_bytes import WeightBytes

NAMES = st.text(min_size=1, max_size=12).filter(lambda name: name != "__metadata__")
DTYPES = st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16])
SHAPES = st.lists(st.integers(0, 4), max_size=3)


@given(st.dictionaries(NAMES, st.tuples(DTYPES, SHAPES), max_size=6))
@pytest.mark.slow
def test_file_equals_the_librarys_byte_for_byte(
    asked: dict[str, tuple[torch.dtype, list[int]]],
) -> None:
    tensors = {name: torch.randn(shape).to(dtype) for name, (dtype, shape) in asked.items()}

    found = WeightBytes().of(tensors)

    assert found == safetensors.torch.save(tensors, metadata={"format": "pt"})


def test_numbers_of_no_model_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"layer\.mask: weights of torch\.bool"):
        WeightBytes().of({"layer.mask": torch.ones(2, dtype=torch.bool)})


def test_memory_is_reused_only_when_unreferenced() -> None:
    weights = WeightBytes()
    weights.of(ones(times=1))
    address = address_of(weights.of(ones(times=2)))
    third = weights.of(ones(times=3))
    assert address_of(third) == address
    part = third[-4:]
    del third

    fourth = weights.of(ones(times=4))

    assert address_of(fourth) != address
    assert part == one_number(3), "held, and not written over"
    del part
    assert address_of(weights.of(ones(times=5))) == address
    assert fourth[-4:] == one_number(4)


def test_version_cannot_be_written_to() -> None:
    assert WeightBytes().of(ones(times=1)).readonly


def ones(*, times: float) -> dict[str, torch.Tensor]:
    return {"weight": times * torch.ones(1 << 20)}


def one_number(value: float) -> bytes:
    return torch.tensor(float(value)).numpy().tobytes()


def address_of(data: memoryview) -> int:
    return np.frombuffer(data, np.uint8).ctypes.data
