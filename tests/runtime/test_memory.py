"""Memory that a process keeps: freed memory, counted in page faults, and loaded objects, counted in
objects that are searched for garbage."""

import os
import platform
import subprocess
import sys

import pytest

ROUNDS = """
import resource, sys
from hetrl_runtime.compute import memory
if sys.argv[1] == "keep":
    memory.keep_freed()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
[bytearray(4 << 20) for _ in range(10)]
before = faults()
for _ in range(50):
    [bytearray(4 << 20) for _ in range(10)]
print(faults() - before)
"""
PAGES_OF_ALL_ROUNDS = 50 * 10 * (4 << 20) // 4096


def faults_of(way: str) -> int:
    """Pages that a process asks for when it makes ten blocks of 4 MiB, fifty times."""
    # What a user has set for glibc would speak for both ways.
    environment = {name: each for name, each in os.environ.items() if "MALLOC" not in name}
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS, way],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
@pytest.mark.slow
def test_repeated_blocks_reuse_the_same_pages() -> None:
    assert faults_of("keep") < PAGES_OF_ALL_ROUNDS / 20
    assert faults_of("as it is") > PAGES_OF_ALL_ROUNDS / 2, "then there is no need to keep anything"


LOADED = """
import gc
import torch
from hetrl_runtime.compute import memory
memory.keep_loaded()
print(len(gc.get_objects()), gc.get_freeze_count())
"""


@pytest.mark.slow
def test_loaded_objects_are_exempt_from_garbage_collection() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], check=True, capture_output=True, text=True, timeout=60
    )

    searched, kept = map(int, done.stdout.split())
    assert searched < 1000 < kept
    assert not done.stderr, "a pod's last line says how it ended"
