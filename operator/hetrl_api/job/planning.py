"""`spec.planning`: what makes a plan good, how long to look for one, or which one is given."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import AwareDatetime, Field

from hetrl_api.job.source import ObjectName
from hetrl_api.validation.rules import ApiModel, Rule, exactly_one
from hetrl_core.job.spec import Strategy


class PlanningMode(StrEnum):
    """What happens with a plan."""

    AUTO = "Auto"
    PLAN_ONLY = "PlanOnly"
    MANUAL = "Manual"


class Throughput(ApiModel):
    """As many samples a second as the limits allow."""


class Cost(ApiModel):
    """As few dollars an hour as a rate allows."""

    required_samples_per_second: Annotated[float, Field(gt=0, le=1e9)]
    """Rate to reach."""


class Deadline(ApiModel):
    """As few dollars as finishing in time allows."""

    finish_before: AwareDatetime
    """Time by which all steps must be done."""


class Objective(ApiModel):
    """Exactly one of throughput, cost and deadline."""

    throughput: Throughput | None = None
    """As many samples a second as the limits allow."""

    cost: Cost | None = None
    """As few dollars an hour as a rate allows."""

    deadline: Deadline | None = None
    """As few dollars as finishing in time allows."""


class Replan(ApiModel):
    """When a running job moves to a better plan because its fleet has changed.

    A job moves whatever this says when a machine of its plan is lost or about to go, when its spec
    changes, and when a rule of spec.failurePolicy asks for it.
    """

    on_node_change: bool = True
    """Plan again when nodes come, go, are cordoned or tainted, and when prices or links change."""

    cooldown_seconds: Annotated[int, Field(ge=0, le=31_536_000)] = 600
    """Shortest time to the next search for a better plan, after a plan became active or another one
    was rejected."""

    min_improvement_percent: Annotated[float, Field(ge=0, le=1000)] = 10.0
    """Predicted gain below which no plan is moved to, whatever it costs."""

    stability_window_seconds: Annotated[int, Field(ge=1, le=31_536_000)] = 1800
    """How long a fleet is taken to stay as it is: what another plan gains in this time, or until
    the job's end, must exceed what the move costs."""


class Planning(ApiModel):
    """How the job is planned."""

    mode: PlanningMode = PlanningMode.AUTO
    """Auto: plan and run. PlanOnly: plan, create nothing else. Manual: run by the HetRLPlan that
    planRef names, and by no other."""

    plan_ref: ObjectName | None = None
    """The HetRLPlan that a Manual job runs by, in its namespace. It is checked before anything is
    created, and waited for while there is none."""

    # Written by no default: v0.1.0, to which one may go back, refuses a job that has it.
    history_limit: Annotated[int, Field(ge=0, le=10)] | None = None
    """How many plans are kept that the job does not follow any more; the oldest go first.
    Unset: 2."""

    objective: Objective | None = None
    """What makes a plan good; unset: throughput."""

    strategy: Strategy = Strategy.AUTO
    """Which search. Auto: what several of them find, the best of it played forward."""

    time_budget_seconds: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Longest search; the best plan so far is taken."""

    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    """Of the search."""

    # Written by no default: v0.1.0, to which one may go back, refuses a job that has it.
    replan: Replan | None = None
    """When a running job moves to a better plan; unset: as its fields' defaults say."""

    @property
    def effective_replan(self) -> Replan:
        """What holds, whether it is written or not."""
        return self.replan or Replan()

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="(self.mode == 'Manual') == has(self.planRef)",
            message=(
                "spec.planning.planRef must be set if and only if spec.planning.mode is Manual, "
                "got mode {}"
            ),
            values=("self.mode",),
            field=".planRef",
        ),
        Rule(
            condition="!has(self.objective) || "
            + exactly_one("", ("throughput", "cost", "deadline"), of="self.objective").condition,
            message="spec.planning.objective must set exactly one of throughput, cost, deadline",
            field=".objective",
        ),
    )
