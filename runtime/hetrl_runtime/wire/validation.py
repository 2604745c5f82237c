"""Validation of trajectories that peers send.

One core validates thousands of trajectories a second. So fields are read once, since each read
copies them, and the usual case (one version, no tool, nothing wrong) is recognized from bytes:
numpy releases the interpreter for arrays of more than 500 numbers, and on a busy core getting it
back takes longer than the check. ``codec`` converts bytes to values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from hetrl_core.job.reward import MAX_REWARDS
from hetrl_core.launch import Launch
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

MIN_LOG_PROB = -1e6
"""Far below what a softmax gives: logits differ by thousands, even at a temperature of 0.01."""

INT32 = np.dtype("<i4")
FLOAT32 = np.dtype("<f4")
_UINT32 = np.dtype("<u4")
_AT_ONCE = 500
"""Numbers of which numpy finds the largest without releasing the interpreter."""

_FINISH_REASONS = frozenset({"stop", "length"})
_NUMBER_BYTES = 4
_LAST_BYTE = slice(_NUMBER_BYTES - 1, None, _NUMBER_BYTES)
"""Of every float, little-endian: its sign, and most of its exponent."""

_SMALL_OR_NEGATIVE = bytes((*range(0x3A), *range(0x80, 0xC9)))
"""Last bytes of float32s that are above -524,288 and negative, or positive and below 4.9e-4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLimits:
    """Limits of one job to what its trajectories hold; by default those of the protocol."""

    vocab_size: int = 1 << 31
    max_prompt_tokens: int = MAX_TOKENS
    max_response_tokens: int = MAX_TOKENS
    reward_parts: frozenset[str] | None = None
    """Names of the job's rewards; None: any, but only so many."""


PROTOCOL_LIMITS = WireLimits()


def limits_of(launch: Launch) -> WireLimits:
    """Return the limits of a job."""
    return WireLimits(
        vocab_size=launch.vocab_size or PROTOCOL_LIMITS.vocab_size,
        max_prompt_tokens=launch.data.max_prompt_tokens,
        max_response_tokens=launch.data.max_response_tokens,
        reward_parts=frozenset(each.name for each in launch.data.rewards),
    )


class ResponseSeen(NamedTuple):
    """A response's length, the versions that sampled it, and its number of tool results."""

    num_tokens: int
    oldest_version: int
    newest_version: int
    num_tool_calls: int


def wait_of(seconds: float, *, longest_seconds: float) -> float:
    """Return a wait that a peer asks for, within a limit; 0 where it is not a number."""
    return min(seconds, longest_seconds) if seconds > 0 else 0.0


def misaddressed(message: pb.Trajectory) -> str:
    """Say why a message cannot be taken for anybody's; empty where it can."""
    if message.group < 0 or not 0 <= message.member < MAX_MEMBERS:
        return f"id {message.group}/{message.member} is out of range"
    return "" if message.process else "process is empty"


def inspected(
    message: pb.Trajectory, *, size_bytes: int, limits: WireLimits = PROTOCOL_LIMITS
) -> ResponseSeen | str:
    """Return what a response is like, or what is wrong with the message.

    Args:
        message: one that is not ``misaddressed``, and no failure.
        size_bytes: of the whole message.
        limits: of the job that it is for.
    """
    if message.finish_reason not in _FINISH_REASONS:
        return f"finish_reason must be stop or length, got {message.finish_reason[:40]!r}"
    tokens, versions = message.response_tokens, message.token_versions
    log_probs, prompt = message.behaviour_log_probs, message.prompt_tokens
    reference = message.reference_log_probs
    return (
        _wrong_size("prompt_tokens", prompt, limits.max_prompt_tokens, "data.maxPromptTokens")
        or _wrong_size(
            "response_tokens", tokens, limits.max_response_tokens, "data.maxResponseTokens"
        )
        or _unequal_sizes(len(tokens), len(log_probs), len(versions))
        # No text of a shorter message can be too long.
        or (_oversized_text(message) if size_bytes > MAX_TEXT_CHARS else "")
        or _impossible_numbers(message.reward, message.generation_seconds)
        or (_impossible_parts(message.reward_parts, limits) if message.reward_parts else "")
        or _outside_vocabulary("prompt_tokens", prompt, limits.vocab_size)
        or _outside_vocabulary("response_tokens", tokens, limits.vocab_size)
        or impossible_log_probs("behaviour_log_probs", log_probs)
        or (_impossible_reference(reference, len(tokens)) if reference else "")
        or _versions(versions, log_probs)
    )


def _wrong_size(name: str, tokens: bytes, most: int, field: str) -> str:
    if not tokens:
        return f"{name} is empty"
    if len(tokens) % _NUMBER_BYTES:
        return f"{name} has {len(tokens)} bytes, must be a multiple of {_NUMBER_BYTES}"
    if len(tokens) > _NUMBER_BYTES * most:
        return f"{name} has {len(tokens) // _NUMBER_BYTES} tokens, {field} is {most}"
    return ""


def _unequal_sizes(response: int, log_probs: int, versions: int) -> str:
    for name, size in (("behaviour_log_probs", log_probs), ("token_versions", versions)):
        if size != response:
            return f"{name} has {size} bytes, response_tokens has {response}"
    return ""


def _oversized_text(message: pb.Trajectory) -> str:
    for name in ("response_text", "question", "answer"):
        if (size := len(getattr(message, name))) > MAX_TEXT_CHARS:
            return f"{name} has {size} characters, the limit is {MAX_TEXT_CHARS}"
    return ""


def _impossible_numbers(reward: float, generation_seconds: float) -> str:
    # A NaN fails these comparisons too.
    if not abs(reward) <= FLOAT32_MAX:
        return f"reward is {reward}, which float32 does not hold"
    if not 0 <= generation_seconds < inf:
        return f"generation_seconds is {generation_seconds}, must be finite and >= 0"
    return ""


def _impossible_parts(parts: Mapping[str, float], limits: WireLimits) -> str:
    """Say what is wrong with the parts of a reward, whose names become labels of metrics."""
    known = limits.reward_parts
    if len(parts) > MAX_REWARDS:
        return f"reward_parts has {len(parts)} entries, the limit is {MAX_REWARDS}"
    for name, reward in parts.items():
        if known is not None and name not in known:
            return f"reward_parts has {name[:40]!r}, which is none of data.rewards"
        if not abs(reward) <= FLOAT32_MAX:
            return f"reward_parts[{name[:40]!r}] is {reward}, which float32 does not hold"
    return ""


def _outside_vocabulary(name: str, tokens: bytes, vocab_size: int) -> str:
    # Read without a sign, a negative number is above every vocabulary.
    found = np.frombuffer(tokens, _UINT32)
    for start in range(0, found.size, _AT_ONCE):
        part = found[start : start + _AT_ONCE]
        if np.maximum.reduce(part) >= vocab_size:
            token = int(part[part >= vocab_size][0].astype(INT32))
            return f"{name} has {token}, must be >= 0 and below the vocabulary's {vocab_size}"
    return ""


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
    lowest = found.min()
    return f"{name} has {lowest:.3g}, must be >= {MIN_LOG_PROB:g}" if lowest < MIN_LOG_PROB else ""


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
