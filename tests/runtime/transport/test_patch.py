"""Patches: exact to the bit, whatever is patched, and harmless, whatever is sent."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_runtime.transport.weights import patch
from hetrl_runtime.transport.weights.fetching import fetch_weights
from hetrl_runtime.transport.weights.patch import Unfit
from hetrl_runtime.transport.weights.patches import Patches
from hetrl_runtime.transport.weights.weights import Snapshot, WeightServer
from tests.runtime.launches import a_launch


def a_file(*tensors: tuple[str, bytes]) -> bytes:
    """A safetensors file of tensors: type and bytes of each."""
    header, offset = {}, 0
    for number, (dtype, data) in enumerate(tensors):
        header[f"t{number}"] = {"dtype": dtype, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors)


def weights(*, seed: int = 0, moved: float = 0.0, count: int = 5000) -> bytes:
    """Weights, moved a little as a step of training moves them."""
    rng = np.random.default_rng(seed)
    found = rng.standard_normal(count) * 0.02 + moved * rng.standard_normal(count)
    return a_file(("F32", found.astype("<f4").tobytes()), ("U8", b"odd"))


def test_patch_cannot_make_far_more_than_a_model_compresses() -> None:
    bomb = patch.make(bytes(128 << 20))
    assert len(bomb) < 1 << 20

    found = patch.apply(bomb)

    assert isinstance(found, Unfit)
    assert "claim to make" in found.reason


def test_patch_of_unchanged_weights_may_be_tiny() -> None:
    base = weights(count=1_000_000)
    made = patch.make(base, base=base)
    assert len(made) < len(base) // 256
    assert patch.apply(made, base=base) == base


DTYPES = st.sampled_from(["F32", "BF16", "F64", "I64", "U8", "F8_E4M3", "nonsense"])


@settings(max_examples=40)
@given(
    dtypes=st.lists(st.tuples(DTYPES, st.binary(max_size=60)), max_size=4),
    others=st.data(),
    patched=st.booleans(),
)
def test_patch_gives_back_every_bit(
    dtypes: list[tuple[str, bytes]], others: st.DataObject, *, patched: bool
) -> None:
    result = a_file(*dtypes)
    base = a_file(
        *(
            (dtype, others.draw(st.binary(min_size=len(data), max_size=len(data))))
            for dtype, data in dtypes
        )
    )
    made = patch.make(result, base=base if patched else None)

    assert patch.apply(made, base=base) == result


@settings(max_examples=40)
@given(result=st.binary(max_size=200), base=st.none() | st.binary(max_size=200))
def test_patches_work_for_any_bytes(result: bytes, base: bytes | None) -> None:
    assert patch.apply(patch.make(result, base=base), base=base) == result


@settings(max_examples=40)
@given(data=st.binary(max_size=300), base=st.none() | st.binary(max_size=40))
def test_noise_is_refused_with_a_reason(data: bytes, base: bytes | None) -> None:
    for noise in (data, patch.make(b"weights")[:64] + data):
        for found in (patch.apply(noise, base=base), patch.apply_joined(noise, base=base)):
            assert isinstance(found, Unfit)
            assert found.reason


@settings(max_examples=40)
@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_flipped_bit_is_noticed(at: int, bit: int) -> None:
    base, result = weights(count=200), weights(count=200, moved=1e-5)
    made = bytearray(patch.make(result, base=base))
    made[at % len(made)] ^= 1 << bit

    found = patch.apply(made, base=base)

    # In the digest of the base alone nothing is lost: who applies it has that base.
    assert isinstance(found, Unfit) or found == result


def test_wrong_base_is_noticed() -> None:
    made = patch.make(weights(moved=1e-5), base=weights())

    assert patch.apply(made, base=weights(seed=1)) == Unfit(
        reason="the patched weights have a wrong digest"
    )
    assert isinstance(patch.apply(made), Unfit)


def test_weights_of_other_tensors_are_sent_whole() -> None:
    result = weights(count=4000)
    made = patch.make(result, base=weights(count=5000))

    assert patch.base_of(made) == patch.NO_BASE
    assert patch.apply(made) == result


def test_patch_of_a_step_is_smaller_than_the_whole() -> None:
    base, result = weights(), weights(moved=1e-7)

    assert len(patch.make(result, base=base)) < 0.7 * len(patch.make(result)) < 0.95 * len(result)


def test_patches_are_chained_and_long_chains_forgotten() -> None:
    versions = [weights(moved=number * 1e-6) for number in range(5)]
    patches = Patches()
    patches.add(versions[0])
    # No reader has asked yet: no patch is made.
    patches.add(versions[1])
    assert patches.ways().payload(patch.digest(versions[0])).base_sha256 == b""
    sizes = []
    for data in versions[2:]:
        patches.add(data)
        payload = patches.ways().payload(patch.digest(versions[1]))
        if payload.base_sha256:
            assert patch.apply_joined(payload.data, base=versions[1]) == data
        sizes.append(len(payload.data))
        unknown = patches.ways().payload(b"x" * 32)
        assert unknown.base_sha256 == b""
        assert patch.apply_joined(unknown.data) == data
    patches.close()

    assert sizes[0] < sizes[1] <= len(versions[0])
    # Three steps are more than the weights themselves.
    assert 2 * sizes[0] > sizes[2]


async def test_weights_cross_regions_as_patches_of_a_known_base(
    tmp_path: Path,
) -> None:
    launch = replace(a_launch(tmp_path), weights_cross_regions=True)
    versions = [weights(moved=number * 1e-6) for number in range(3)]
    with WeightServer(job=launch.job, address=launch.weights, tls=None) as server:
        server.publish(Snapshot(version=0, data=versions[0]))
        first = await fetch_weights(launch, process="p")
        server.publish(Snapshot(version=1, data=versions[1]))
        second = await fetch_weights(launch, process="p", have_version=0, base=first)
        server.publish(Snapshot(version=2, data=versions[2]))
        strange = Snapshot(version=1, data=b"of a history that was given up", sha256=b"?" * 32)
        third = await fetch_weights(launch, process="p", have_version=1, base=strange)

    assert [each.data for each in (first, second, third)] == versions
    assert [each.is_patched for each in (first, second, third)] == [False, True, False]


@pytest.mark.parametrize("base_is_lost", [False, True], ids=["refetched", "without a base"])
async def test_wrong_base_costs_only_a_second_fetch(tmp_path: Path, *, base_is_lost: bool) -> None:
    launch = replace(a_launch(tmp_path), weights_cross_regions=True)
    with WeightServer(job=launch.job, address=launch.weights, tls=None) as server:
        server.publish(Snapshot(version=0, data=weights()))
        first = await fetch_weights(launch, process="p")
        server.publish(Snapshot(version=1, data=weights(moved=1e-6)))
        # Its memory is not what its digest says.
        base = None if base_is_lost else replace(first, data=weights(seed=3))
        second = await fetch_weights(launch, process="p", have_version=0, base=base)

    assert second.data == weights(moved=1e-6)
    assert not second.is_patched
