"""A fault: a reason why a job cannot run."""

from dataclasses import dataclass

MODEL_INVALID = "ModelInvalid"
DATA_INVALID = "DataInvalid"
REWARD_INVALID = "RewardInvalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A reason of a condition, with its message."""

    reason: str
    message: str
