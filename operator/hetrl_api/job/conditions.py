"""Conditions of an object, as every Kubernetes tool reads them."""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints

from hetrl_api.validation.lists import Keyed
from hetrl_api.validation.rules import ApiModel


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One aspect of the object's state."""

    type: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """What it is about."""

    status: ConditionStatus
    """Whether it holds."""

    reason: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    """Why, for programs."""

    message: Annotated[str, StringConstraints(max_length=32768)]
    """Why, for people."""

    last_transition_time: AwareDatetime
    """When `status` changed last."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation that this is about."""


Conditions = Annotated[tuple[Condition, ...], Keyed(("type",), most=16)]
