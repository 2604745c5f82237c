"""How many trajectories a second one core takes in: decode, ledger, journal, and back out.

Run it as ``python bench/wire.py``. Responses have 256 tokens and their text, about 4.4 kB;
measured is the processor time of all that the coordinator does but the socket.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from hetrl_core.algorithm import AlgorithmSpec
from hetrl_runtime.coordinator.journal import Journal
from hetrl_runtime.coordinator.state import RunState
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import SampledTrajectory
from hetrl_runtime.wire.values import Outcome, ResumePoint

NUM_TRAJECTORIES = 8192
BATCH_SIZE = 256
RESPONSE_TOKENS = 256


def main() -> None:
    """Print the rate of each part and of all together."""
    serialized = {
        (group, member): _message(group, member).SerializeToString()
        for group in range(NUM_TRAJECTORIES // 8)
        for member in range(8)
    }
    decoding = _seconds_of_decoding(list(serialized.values()))
    with tempfile.TemporaryDirectory() as folder:
        everything = _seconds_of_everything(serialized, Journal(Path(folder) / "journal"))
    size = len(next(iter(serialized.values())))
    print(f"trajectory: {RESPONSE_TOKENS} tokens, {size} bytes")
    print(f"decode and check:                {NUM_TRAJECTORIES / decoding:9.0f} /s")
    print("lease, decode, ledger, journal,")
    print(f"batch, encode and commit:        {NUM_TRAJECTORIES / everything:9.0f} /s")


def _message(group: int, member: int) -> pb.Trajectory:
    rng = np.random.default_rng([group, member])
    return codec.encode_trajectory(
        SampledTrajectory(
            group=group,
            member=member,
            epoch=1,
            process="rollout-l4-0-0",
            prompt_tokens=rng.integers(0, 150_000, 64, dtype=np.int32),
            response_tokens=rng.integers(0, 150_000, RESPONSE_TOKENS, dtype=np.int32),
            behaviour_log_probs=-rng.random(RESPONSE_TOKENS, dtype=np.float32),
            token_versions=np.full(RESPONSE_TOKENS, group * 8 // BATCH_SIZE, dtype=np.int32),
            reward=1.0,
            finish_reason="stop",
            response_text="so the answer is 42. " * 50,
            question="What is 6 times 7?",
            answer="#### 42",
        )
    )


def _seconds_of_decoding(messages: list[bytes]) -> float:
    started = time.process_time()
    for each in messages:
        found = codec.decode_trajectory(pb.Trajectory.FromString(each))
        assert isinstance(found, SampledTrajectory)
    return time.process_time() - started


def _seconds_of_everything(serialized: dict[tuple[int, int], bytes], journal: Journal) -> float:
    algorithm = AlgorithmSpec(max_staleness=2, group_size=8, global_batch_size=BATCH_SIZE)
    state = RunState(algorithm, max_concurrent=10_000, lease_seconds=20.0)
    state.begin(ResumePoint(), epoch=1)
    started = time.process_time()
    while state.version < NUM_TRAJECTORIES // BATCH_SIZE:
        loans = state.lend(
            "rollout-l4-0-0", worker_version=state.version, max_trajectories=BATCH_SIZE, now=0.0
        )
        for identity in (each for loan in loans for each in loan.ids):  # type: ignore[union-attr]
            if identity in serialized:
                _take(state, journal, serialized[identity])
        batch = state.batch()
        sent = [codec.encode_trajectory(each).SerializeToString() for each in batch]
        assert len(sent) == BATCH_SIZE
        state.commit(state.version + 1, consumed=[each.id for each in batch])
        journal.force()
    return time.process_time() - started


def _take(state: RunState, journal: Journal, data: bytes) -> None:
    message = pb.Trajectory.FromString(data)
    found = codec.decode_trajectory(message)
    assert isinstance(found, SampledTrajectory)
    assert state.accept(found) is Outcome.ACCEPTED
    journal.append(pb.JournalEntry(accepted=message))
    journal.flush()


if __name__ == "__main__":
    main()
