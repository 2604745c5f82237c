"""Validation of trajectories that peers send.

One core validates thousands of trajectories a second. So fields are read once, since each read
copies them, and the usual case (one version, no tool, nothing wrong) is recognized from bytes:
numpy releases the interpreter for arrays of more than 500 numbers, and on a busy core getting it
back takes longer than the check. ``codec`` converts bytes to values.
"""

from math import isfinite
from typing import NamedTuple

import numpy as np

from hetrl_core.units import FLOAT32_MAX
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import TOOL_VERSION, LogProbs, Tokens, num_tool_calls

MAX_TOKENS = 1 << 20
"""Of a prompt or a response: above any context window in use."""

MAX_TEXT_CHARS = 4 << 20
MAX_REASON_CHARS = 64
MAX_MEMBERS = 1 << 16
MAX_FINITE_LOG_PROB = 1e-3
"""Log-probabilities are <= 0 but for rounding."""

INT32 = np.dtype("<i4")
FLOAT32 = np.dtype("<f4")
_FINISH_REASONS = frozenset({"stop", "length"})
_NUMBER_BYTES = 4
_LAST_BYTE = slice(_NUMBER_BYTES - 1, None, _NUMBER_BYTES)
"""Of every number, little-endian: its sign, and of a float most of its exponent."""

_SMALL_OR_NEGATIVE = bytes((*range(0x3A), *range(0x80, 0xFF)))
"""Last bytes of float32s that are finite and negative, or positive and below 4.9e-4."""


class ResponseSeen(NamedTuple):
    """A response's length, the versions that sampled it, and its number of tool results."""

    num_tokens: int
    oldest_version: int
    newest_version: int
    num_tool_calls: int


def misaddressed(message: pb.Trajectory) -> str:
    """Say why a message cannot be taken for anybody's; empty where it can."""
    if message.group < 0 or not 0 <= message.member < MAX_MEMBERS:
        return f"id {message.group}/{message.member} is out of range"
    return "" if message.process else "process is empty"


def inspected(message: pb.Trajectory, *, size_bytes: int) -> ResponseSeen | str:
    """Return what a response is like, or what is wrong with the message.

    Args:
        message: one that is not ``misaddressed``, and no failure.
        size_bytes: of the whole message.
    """
    if message.finish_reason not in _FINISH_REASONS:
        return f"finish_reason must be stop or length, got {message.finish_reason[:40]!r}"
    tokens, versions = message.response_tokens, message.token_versions
    log_probs, prompt_bytes = message.behaviour_log_probs, len(message.prompt_tokens)
    reference = message.reference_log_probs
    return (
        _wrong_sizes(prompt_bytes, len(tokens), len(log_probs), len(versions))
        # No text of a shorter message can be too long.
        or (_oversized_text(message) if size_bytes > MAX_TEXT_CHARS else "")
        or _impossible(message.reward, tokens, log_probs)
        or (_impossible_reference(reference, len(tokens)) if reference else "")
        or _versions(versions, log_probs)
    )


def _wrong_sizes(prompt: int, response: int, log_probs: int, versions: int) -> str:
    if not response:
        return "response_tokens is empty"
    if not response == log_probs == versions:
        name, size = (
            ("behaviour_log_probs", log_probs)
            if log_probs != response
            else ("token_versions", versions)
        )
        return f"{name} has {size} bytes, response_tokens has {response}"
    most = _NUMBER_BYTES * MAX_TOKENS
    for name, size in (("prompt_tokens", prompt), ("response_tokens", response)):
        if size % _NUMBER_BYTES or size > most:
            return f"{name} has {size} bytes, must be a multiple of 4 up to {most}"
    return ""


def _oversized_text(message: pb.Trajectory) -> str:
    for name in ("response_text", "question", "answer"):
        if (size := len(getattr(message, name))) > MAX_TEXT_CHARS:
            return f"{name} has {size} characters, the limit is {MAX_TEXT_CHARS}"
    return ""


def _impossible(reward: float, tokens: bytes, log_probs: bytes) -> str:
    # A NaN fails this comparison too.
    if not abs(reward) <= FLOAT32_MAX:
        return f"reward is {reward}, which float32 does not hold"
    if not tokens[_LAST_BYTE].isascii():
        return f"response_tokens has {np.frombuffer(tokens, INT32).min()}, must be >= 0"
    return impossible_log_probs("behaviour_log_probs", log_probs)


def _impossible_reference(log_probs: bytes, response: int) -> str:
    if len(log_probs) != response:
        return f"reference_log_probs has {len(log_probs)} bytes, response_tokens has {response}"
    return impossible_log_probs("reference_log_probs", log_probs)


def impossible_log_probs(name: str, log_probs: bytes) -> str:
    """Say what no log-probability can be; empty where all can."""
    if not log_probs[_LAST_BYTE].translate(None, _SMALL_OR_NEGATIVE):
        return ""
    found: LogProbs = np.frombuffer(log_probs, FLOAT32)
    # A NaN fails this comparison too; minus infinity is left to the next line.
    if not found.max() <= MAX_FINITE_LOG_PROB:
        return f"{name} has a value above 0, or not a number"
    return "" if isfinite(found.min()) else f"{name} has an infinite value"


def _versions(versions: bytes, log_probs: bytes) -> ResponseSeen | str:
    first, count = versions[:_NUMBER_BYTES], len(versions) // _NUMBER_BYTES
    number = int.from_bytes(first, "little", signed=True)
    if number >= 0 and versions == first * count:
        return ResponseSeen(count, number, number, num_tool_calls=0)
    return _several_versions(np.frombuffer(versions, INT32), np.frombuffer(log_probs, FLOAT32))


def _several_versions(versions: Tokens, log_probs: LogProbs) -> ResponseSeen | str:
    lowest = int(versions.min())
    if lowest < TOOL_VERSION:
        return f"token_versions has {lowest}, must be >= 0, or {TOOL_VERSION} where a tool wrote"
    is_sampled = versions != TOOL_VERSION
    sampled = versions[is_sampled]
    if not sampled.size:
        return "token_versions says that a tool wrote every token"
    if log_probs[~is_sampled].any():
        return "behaviour_log_probs has a value other than 0 where a tool wrote"
    return ResponseSeen(
        num_tokens=versions.size,
        oldest_version=int(sampled.min()),
        newest_version=int(sampled.max()),
        num_tool_calls=num_tool_calls(versions),
    )
