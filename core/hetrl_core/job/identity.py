"""The identity of a run: what its checkpoints are of, and what must not change unnoticed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Aspect(StrEnum):
    """What checkpoints record of the run that wrote them."""

    MODEL = "Model"
    """The files of the policy's first weights, of its configuration and of its tokenizer."""

    DATA = "Data"
    """The contents of the data, and which of their fields are read."""

    ALGORITHM = "Algorithm"
    """The type of the algorithm."""

    REWARD = "Reward"
    """How responses are scored, and which tools they may call."""

    SEED = "Seed"
    """The seed of the prompts' order."""


FIELDS: Mapping[Aspect, str] = {
    Aspect.MODEL: "spec.model.source",
    Aspect.DATA: "spec.data.prompts",
    Aspect.ALGORITHM: "spec.algorithm.type",
    Aspect.REWARD: "spec.data.reward",
    Aspect.SEED: "spec.training.seed",
}

_SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The value of an aspect."""

    name: str = ""
    """For people; the same contents may be found under another name."""

    digest: str = ""
    """Of the contents; empty where the name says it all."""

    @property
    def is_known(self) -> bool:
        """Whether anything was recorded."""
        return bool(self.name or self.digest)

    def is_same(self, other: "Value") -> bool:
        """Tell whether two values stand for the same contents."""
        return (self.digest or self.name) == (other.digest or other.name)

    def __str__(self) -> str:
        return f"{self.name} (sha256 {self.digest[:_SHOWN_DIGITS]})" if self.digest else self.name


UNKNOWN = Value()

Identity = Mapping[Aspect, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An aspect in which a run differs from what was recorded."""

    aspect: Aspect
    recorded: Value
    present: Value

    def __str__(self) -> str:
        field = FIELDS[self.aspect]
        return f"{field} has changed: recorded {self.recorded}, now {self.present}"


def differences(recorded: Identity, present: Identity) -> tuple[Difference, ...]:
    """Return in what two identities differ; what one of them does not know is not compared."""
    pairs = [(each, recorded.get(each, UNKNOWN), present.get(each, UNKNOWN)) for each in Aspect]
    return tuple(
        Difference(aspect=aspect, recorded=before, present=now)
        for aspect, before, now in pairs
        if before.is_known and now.is_known and not before.is_same(now)
    )


def refusal(found: Collection[Difference]) -> str:
    """Return what differs and what to do about it, for a user."""
    aspects = [each.aspect for each in found]
    options = " ".join(f"--allow-change {each.lower()}" for each in aspects)
    return (
        f"{'; '.join(map(str, found))}. To continue on purpose, set "
        f"spec.storage.checkpoints.allowChanges: [{', '.join(aspects)}] (hetrl run: {options}); "
        "to start from the model, choose another name or another folder for the checkpoints"
    )
