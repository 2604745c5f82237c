"""Trajectories over the wire: what goes in comes out, and nothing malformed gets through."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.units import FLOAT32_MAX
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.codec import Malformed
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import (
    TOOL_VERSION,
    FailedTrajectory,
    SampledTrajectory,
    num_tool_calls,
)
from hetrl_runtime.wire.validation import WireLimits
from hetrl_runtime.wire.values import Outcome, ResumePoint, StepReport
from tests.runtime.trajectories import a_trajectory


@given(
    versions=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=50).map(sorted),
    prompt=st.integers(1, 30),
    reward=st.floats(-FLOAT32_MAX, FLOAT32_MAX),
    is_scored=st.booleans(),
    parts=st.dictionaries(st.text(max_size=9), st.floats(-FLOAT32_MAX, FLOAT32_MAX), max_size=8),
)
def test_trajectory_comes_out_as_it_went_in(
    versions: list[int], prompt: int, reward: float, is_scored: bool, parts: dict[str, float]
) -> None:
    sent = a_trajectory(
        versions=versions,
        num_prompt_tokens=prompt,
        reward=reward,
        is_scored=is_scored,
        reward_parts=parts,
    )

    received = codec.decode_trajectory(codec.encode_trajectory(sent))

    assert isinstance(received, SampledTrajectory)
    for name in ("prompt_tokens", "response_tokens", "behaviour_log_probs", "token_versions"):
        assert np.array_equal(getattr(received, name), getattr(sent, name)), name
    assert (received.reference_log_probs is not None) is is_scored
    if is_scored:
        assert np.array_equal(received.reference_log_probs, sent.reference_log_probs)
    for name in ("id", "epoch", "process", "reward", "finish_reason", "answer", "response_text"):
        assert getattr(received, name) == getattr(sent, name), name
    assert received.reward_parts == sent.reward_parts
    assert (received.oldest_version, received.newest_version) == (versions[0], versions[-1])


@given(
    versions=st.lists(st.integers(TOOL_VERSION, 3), min_size=1, max_size=50).filter(
        lambda versions: max(versions) >= 0
    ),
    is_scored=st.booleans(),
)
def test_coordinator_fields_are_read_from_the_forwarded_bytes(
    versions: list[int], is_scored: bool
) -> None:
    parts = {"correct": 1.0}
    sent = a_trajectory(2, 1, versions=versions, is_scored=is_scored, reward_parts=parts)
    sent.behaviour_log_probs[sent.token_versions == TOOL_VERSION] = 0.0
    data = codec.encode_trajectory(sent)

    found = codec.receive_trajectory(data)

    assert found == DeliveredTrajectory(
        id=sent.id,
        epoch=sent.epoch,
        process=sent.process,
        reward=sent.reward,
        reward_parts=parts,
        oldest_version=min(each for each in versions if each >= 0),
        newest_version=max(versions),
        num_response_tokens=len(versions),
        num_tool_calls=num_tool_calls(sent.token_versions),
        has_reference=is_scored,
        data=data,
    )


def test_unjudged_response_is_a_failure_with_its_reason() -> None:
    sent = FailedTrajectory(
        group=1,
        member=2,
        epoch=3,
        process="rollout-0",
        error="the reward was not judged: TimeLimit: takes too long",
        unjudged="TimeLimit",
    )
    data = codec.encode_trajectory(sent)

    assert codec.receive_trajectory(data) == sent
    # A reader of an earlier release sees a failure, and no response that is worth 0.
    assert pb.Trajectory.FromString(data).error == sent.error
    assert not pb.Trajectory.FromString(data).response_tokens


def test_trajectories_stand_in_a_message_as_messages_do() -> None:
    data = codec.encode_trajectory(
        FailedTrajectory(group=3, member=1, epoch=2, process="p", error="e")
    )
    as_a_message = b"\x0a" + bytes([len(data)]) + data

    (part,) = codec.in_parts([data])

    assert part.SerializeToString() == as_a_message
    assert list(pb.Trajectories.FromString(as_a_message).trajectories) == [data]


def test_parts_are_short_and_lose_nothing() -> None:
    large = [bytes([number]) * (codec.PART_BYTES // 2) for number in range(5)]

    parts = list(codec.in_parts(large))

    assert [len(part.trajectories) for part in parts] == [2, 2, 1]
    assert [each for part in parts for each in part.trajectories] == large


@given(st.binary(max_size=300))
def test_arbitrary_bytes_decode_to_a_result(data: bytes) -> None:
    found = codec.receive_trajectory(data)

    assert isinstance(found, Malformed | FailedTrajectory | DeliveredTrajectory)


def test_bytes_that_are_no_message_are_nobodys() -> None:
    found = codec.receive_trajectory(b"\xff\xff\xff")

    assert isinstance(found, Malformed)
    assert "3 bytes that are no trajectory" in found.error
    assert found.id.group == -1


def test_failure_carries_its_reason() -> None:
    failed = FailedTrajectory(group=3, member=1, epoch=2, process="p", error="prompt too long")

    assert codec.decode_trajectory(codec.encode_trajectory(failed)) == failed


def _set(name: str, value: object) -> Callable[[pb.Trajectory], None]:
    return lambda message: setattr(message, name, value)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        pytest.param(_set("group", -1), "id -1/0 is out of range", id="group"),
        pytest.param(_set("member", 1 << 20), "out of range", id="member"),
        pytest.param(_set("process", ""), "process is empty", id="process"),
        pytest.param(_set("response_tokens", b""), "response_tokens is empty", id="no tokens"),
        pytest.param(_set("response_tokens", b"12345"), "response_tokens has 5 bytes", id="ragged"),
        pytest.param(
            _set("prompt_tokens", b"12345"), "prompt_tokens has 5 bytes", id="ragged prompt"
        ),
        pytest.param(
            _set("token_versions", b"1234"),
            "token_versions has 4 bytes, response_tokens has 12",
            id="too few versions",
        ),
        pytest.param(
            _set("reference_log_probs", b"12345678"),
            "reference_log_probs has 8 bytes, response_tokens has 12",
            id="too few words of the reference",
        ),
        pytest.param(
            _set("reference_log_probs", np.float32([0, -1, np.nan]).tobytes()),
            "reference_log_probs has a value above 0, or not a number",
            id="NaN of the reference",
        ),
        pytest.param(
            _set("behaviour_log_probs", np.float32([0, -1, np.nan]).tobytes()),
            "not a number",
            id="NaN log-probability",
        ),
        pytest.param(
            _set("behaviour_log_probs", np.float32([0, -1, -np.inf]).tobytes()),
            "has -inf, must be >= -1e+06",
            id="infinite log-probability",
        ),
        pytest.param(
            _set("behaviour_log_probs", np.float32([0, -1, 2]).tobytes()),
            "above 0",
            id="impossible log-probability",
        ),
        pytest.param(
            _set("token_versions", np.int32([0, -2, 0]).tobytes()), "has -2", id="version below 0"
        ),
        pytest.param(
            _set("token_versions", np.int32([-1, -1, -1]).tobytes()),
            "a tool wrote every token",
            id="nothing sampled",
        ),
        pytest.param(
            _set("token_versions", np.int32([0, -1, 0]).tobytes()),
            "other than 0 where a tool wrote",
            id="a tool's log-probability",
        ),
        pytest.param(
            _set("response_tokens", np.int32([0, -7, 0]).tobytes()), "has -7", id="token below 0"
        ),
        pytest.param(_set("reward", float("inf")), "reward is inf", id="reward"),
        pytest.param(_set("reward", float("nan")), "reward is nan", id="no number"),
        pytest.param(
            _set("reward", -1e39), "reward is -1e+39, which float32 does not hold", id="a double"
        ),
        pytest.param(_set("finish_reason", "tired"), "got 'tired'", id="finish reason"),
    ],
)
def test_malformed_trajectory_is_reported(
    spoil: Callable[[pb.Trajectory], None], complaint: str
) -> None:
    message = pb.Trajectory.FromString(codec.encode_trajectory(a_trajectory()))
    spoil(message)

    found = codec.decode_trajectory(message.SerializeToString())

    assert isinstance(found, Malformed)
    assert complaint in found.error


LIMITS = WireLimits(vocab_size=128, max_prompt_tokens=8, max_response_tokens=4)


def _arrays(**values: list[float]) -> dict[str, object]:
    return {
        name: np.array(value, codec.INT32 if "tokens" in name else codec.FLOAT32).tobytes()
        for name, value in values.items()
    }


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (_arrays(response_tokens=[-5, 1, 2]), "response_tokens has -5, must be >= 0"),
        (_arrays(behaviour_log_probs=[np.nan, -1, -1]), "above 0, or not a number"),
        ({"reward": np.inf}, "reward is inf"),
        ({"reward": 1e300}, "reward is 1e+300, which float32 does not hold"),
        ({"generation_seconds": np.nan}, "generation_seconds is nan, must be finite"),
        ({"generation_seconds": np.inf}, "generation_seconds is inf, must be finite"),
        ({"generation_seconds": -1.0}, "generation_seconds is -1.0, must be finite and >= 0"),
        (_arrays(behaviour_log_probs=[-1e38, -1, -1]), "has -1e+38, must be >= -1e+06"),
        (_arrays(reference_log_probs=[-1e38, -1, -1]), "reference_log_probs has -1e+38"),
        ({"prompt_tokens": b""}, "prompt_tokens is empty"),
        (_arrays(prompt_tokens=[-5, 1, 2]), "prompt_tokens has -5, must be >= 0"),
        (_arrays(prompt_tokens=[2_000_000_000]), "has 2000000000, must be >= 0 and below the"),
        (_arrays(response_tokens=[2_000_000_000, 1, 2]), "response_tokens has 2000000000"),
        (_arrays(response_tokens=[1, 2, 128]), "response_tokens has 128, must be >= 0 and below"),
        (_arrays(prompt_tokens=[1] * 9), "prompt_tokens has 9 tokens, data.maxPromptTokens is 8"),
        (_arrays(response_tokens=[1] * 5), "has 5 tokens, data.maxResponseTokens is 4"),
    ],
)
def test_number_beyond_its_limit_is_refused(change: dict[str, object], complaint: str) -> None:
    message = pb.Trajectory.FromString(codec.encode_trajectory(a_trajectory()))
    for name, value in change.items():
        setattr(message, name, value)

    found = codec.receive_trajectory(message.SerializeToString(), LIMITS)

    assert isinstance(found, Malformed)
    assert complaint in found.error


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"correct": 1.0, "x": 0.5}, "reward_parts has 'x', which is none of data.rewards"),
        ({"correct": float("nan")}, "reward_parts['correct'] is nan, which float32 does not hold"),
        ({"correct": 1e39}, "reward_parts['correct'] is 1e+39, which float32 does not hold"),
        ({f"p{n}": 0.0 for n in range(9)}, "reward_parts has 9 entries, the limit is 8"),
    ],
)
def test_reward_part_that_cannot_be_is_refused(parts: dict[str, float], complaint: str) -> None:
    limits = WireLimits(reward_parts=frozenset({"correct"}))
    sent = codec.encode_trajectory(a_trajectory(reward_parts=parts))

    found = codec.receive_trajectory(sent, limits)

    assert isinstance(found, Malformed)
    assert complaint in found.error


@pytest.mark.parametrize("place", [0, 499, 500, 1200])
def test_token_beyond_the_vocabulary_is_found_anywhere(place: int) -> None:
    limits = WireLimits(vocab_size=151_936)
    sent = a_trajectory(versions=(0,) * 1201)
    tokens = np.full(1201, 151_935, np.int32)
    message = pb.Trajectory.FromString(codec.encode_trajectory(sent))
    message.response_tokens = tokens.tobytes()
    assert isinstance(
        codec.receive_trajectory(message.SerializeToString(), limits), DeliveredTrajectory
    )

    tokens[place] = 151_936
    message.response_tokens = tokens.tobytes()
    found = codec.receive_trajectory(message.SerializeToString(), limits)

    assert isinstance(found, Malformed)
    assert "response_tokens has 151936" in found.error


@given(st.floats(-1e6, 0, width=32))
def test_log_probability_of_a_softmax_is_taken(log_prob: float) -> None:
    sent = a_trajectory()
    message = pb.Trajectory.FromString(codec.encode_trajectory(sent))
    message.behaviour_log_probs = np.float32([log_prob, -0.5, 0]).tobytes()

    assert isinstance(codec.receive_trajectory(message.SerializeToString()), DeliveredTrajectory)


@given(st.binary(max_size=200), st.binary(max_size=40), st.text(max_size=10), st.floats())
def test_decoding_never_raises(tokens: bytes, versions: bytes, text: str, reward: float) -> None:
    message = pb.Trajectory(
        process="p",
        response_tokens=tokens,
        behaviour_log_probs=tokens,
        token_versions=versions or tokens,
        reward=reward,
        finish_reason="stop",
        response_text=text,
    )

    found = codec.decode_trajectory(message.SerializeToString())

    assert isinstance(found, SampledTrajectory | Malformed)


@pytest.mark.parametrize("outcome", Outcome)
def test_outcomes_have_their_numbers(outcome: Outcome) -> None:
    identity = a_trajectory(4, 1).id

    assert codec.decode_receipt(codec.encode_receipt(identity, outcome, "why")) == (
        identity,
        outcome,
        "why",
    )


def test_resume_point_survives_the_wire_and_a_checkpoint() -> None:
    point = ResumePoint(version=7, next_group=40, open_groups=(31, 38))

    assert codec.decode_resume(codec.encode_resume(point)) == point
    assert ResumePoint.from_json(point.to_json()) == point


@pytest.mark.parametrize("text", ["", "[]", '{"version": -1}'])
def test_malformed_text_is_no_resume_point(text: str) -> None:
    with pytest.raises(ValueError, match="ResumePoint"):
        ResumePoint.from_json(text)


def test_report_keeps_its_metrics() -> None:
    report = StepReport(step_seconds=2.5, wait_seconds=0.5, metrics={"loss": 0.25})

    assert codec.decode_report(codec.encode_report(report)) == report
