"""Memory that is reused when no view of it is left, and not before."""

import mmap
from collections.abc import Callable

import numpy as np
import pytest
import torch

from hetrl_runtime.compute.buffers import Buffers

SIZE_BYTES = 3 << 20


def test_memory_without_views_is_reused_with_its_contents() -> None:
    buffers = Buffers()
    first = buffers.acquire(SIZE_BYTES)
    first[:4] = b"left"
    address = address_of(first)
    del first

    second = buffers.acquire(SIZE_BYTES)

    assert (address_of(second), bytes(second[:4])) == (address, b"left")


@pytest.mark.parametrize(
    "holding",
    [
        pytest.param(lambda memory: memory, id="all of it"),
        pytest.param(lambda memory: memory[-4:], id="a part"),
        pytest.param(lambda memory: memory.toreadonly()[8:], id="a part that cannot be written to"),
        pytest.param(lambda memory: np.frombuffer(memory, np.uint8)[8:], id="an array"),
        pytest.param(lambda memory: torch.frombuffer(memory, dtype=torch.uint8), id="a tensor"),
        pytest.param(
            lambda memory: torch.frombuffer(memory, dtype=torch.uint8)[8:12].view(torch.float32),
            id="numbers of another kind in a tensor's part",
        ),
    ],
)
def test_memory_with_a_view_is_not_reused(holding: Callable[[memoryview], object]) -> None:
    buffers = Buffers()
    memory = buffers.acquire(SIZE_BYTES)
    address = address_of(memory)
    held = holding(memory)
    del memory

    other = buffers.acquire(SIZE_BYTES)

    assert address_of(other) != address
    del held
    assert address_of(buffers.acquire(SIZE_BYTES)) == address


def test_memory_of_another_size_is_freed() -> None:
    buffers = Buffers()
    for num_bytes in (SIZE_BYTES, 2 * SIZE_BYTES, 0, 1):
        memory = buffers.acquire(num_bytes)
        assert len(memory) == num_bytes
        assert len(buffers._buffers) == 1  # nothing else tells what is kept
        del memory


def test_kernel_without_large_pages_gives_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = 9999
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", unknown, raising=False)
    with pytest.raises(OSError, match="Invalid argument"):
        mmap.mmap(-1, 1).madvise(unknown)

    assert len(Buffers().acquire(SIZE_BYTES)) == SIZE_BYTES


def address_of(memory: memoryview) -> int:
    return np.frombuffer(memory, np.uint8).ctypes.data
