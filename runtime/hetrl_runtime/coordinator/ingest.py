"""Ingest of deliveries: accept or refuse each, report it, and end the run if no delivery can help.

``state`` decides what may be accepted, ``dynamic_sampling`` which groups carry no signal,
``failure_budget`` how many prompts may fail, and ``reward_budget`` how many responses may go
without a reward. ``run`` sends the receipts.
"""

import logging
from collections.abc import Callable

from hetrl_runtime.coordinator.journal.run_journal import RunJournal
from hetrl_runtime.coordinator.reporting.reporting import Reporting
from hetrl_runtime.coordinator.rules.dynamic_sampling import DynamicSampling
from hetrl_runtime.coordinator.rules.failure_budget import FailureBudget
from hetrl_runtime.coordinator.rules.reward_budget import RewardBudget
from hetrl_runtime.coordinator.rules.state import RunState
from hetrl_runtime.tracing.groups import GroupTraces
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.codec import Malformed
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import FailedTrajectory
from hetrl_runtime.wire.validation import WireLimits
from hetrl_runtime.wire.values import Ending, Outcome

log = logging.getLogger(__name__)


class Ingest:
    """The ingest of one run's trajectories, one by one."""

    def __init__(
        self,
        state: RunState,
        journal: RunJournal,
        reporting: Reporting,
        traces: GroupTraces,
        *,
        limits: WireLimits,
        dynamic_sampling: DynamicSampling,
        failure_budget: FailureBudget,
        reward_budget: RewardBudget,
        leave_out: Callable[[FailedTrajectory], None],
        end: Callable[[Ending], None],
    ) -> None:
        self._state = state
        self._journal = journal
        self._reporting = reporting
        self._traces = traces
        self._limits = limits
        self._dynamic_sampling = dynamic_sampling
        self._failure_budget = failure_budget
        self._reward_budget = reward_budget
        self._leave_out = leave_out
        self._end = end
        self.accepted_at: float | None = None
        """When a response was taken in last, or from when on one could be."""

    def take(self, message: bytes, *, now: float) -> pb.DeliveryReceipt:
        """Take a message in; return its receipt, which may leave once the journal is flushed."""
        found = codec.receive_trajectory(message, self._limits)
        if isinstance(found, DeliveredTrajectory):
            outcome, detail = self._accept(found, now=now)
        else:
            outcome, detail = self._note_failure(found, now=now), found.error
        if outcome is not Outcome.ACCEPTED:
            self._traces.refused(found.id, outcome, detail)
        self._reporting.count(outcome)
        return codec.encode_receipt(found.id, outcome, detail)

    def _accept(self, found: DeliveredTrajectory, *, now: float) -> tuple[Outcome, str]:
        outcome = self._state.accept(found)
        if outcome is Outcome.ACCEPTED:
            self._enter(found, now=now)
        is_malformed = outcome is Outcome.MALFORMED
        return outcome, self._state.contradiction(found) if is_malformed else ""

    def _note_failure(self, failed: FailedTrajectory, *, now: float) -> Outcome:
        if isinstance(failed, Malformed):
            log.warning("trajectory malformed: id=%s reason=%s", failed.id, failed.error)
            self._fail(failed)
            return Outcome.MALFORMED
        if failed.left_out:
            return self._leave_out_prompt(failed)
        if failed.unjudged:
            return self._leave_unjudged(failed, now=now)
        return self._fail(failed)

    def _enter(self, accepted: DeliveredTrajectory, *, now: float) -> None:
        self._journal.add_accepted(accepted)
        self.accepted_at = now
        self._traces.accepted(accepted, now=now)
        self._failure_budget.renew()
        self._reward_budget.renew()
        self._leave_out_silent(accepted.group)

    def _leave_out_silent(self, group: int) -> None:
        """Drop a whole group that teaches nothing, where others are to take its place."""
        if not self._dynamic_sampling.leaves_out(self._state.whole_group(group)):
            return
        self._abandon(group, "left out: its rewards are equal")
        self._reporting.count_silent_group()
        if ending := self._dynamic_sampling.ending:
            self._end(ending)

    def _leave_out_prompt(self, failed: FailedTrajectory) -> Outcome:
        """Drop a group, and have its prompt left out of all passes."""
        if refusal := self._state.refusal_of(failed):
            return refusal
        self._abandon(failed.group, "left out: its prompt cannot be used")
        self._leave_out(failed)
        return Outcome.LEFT_OUT

    def _leave_unjudged(self, failed: FailedTrajectory, *, now: float) -> Outcome:
        """Complete a group without a member's reward, or drop it where too few have one."""
        outcome = self._state.leave_unjudged(failed)
        if outcome is not Outcome.UNJUDGED:
            return outcome
        log.warning("trajectory unjudged: id=%s error=%s", failed.id, failed.error)
        self.accepted_at = now
        if self._state.lacks_rewards(failed.group):
            self._abandon(failed.group, "left out: too few of its responses were judged")
            self._reporting.count_unjudged_group()
        else:
            self._leave_out_silent(failed.group)
        if ending := self._reward_budget.unjudged(failed):
            self._end(ending)
        return outcome

    def _fail(self, failed: FailedTrajectory) -> Outcome:
        outcome = self._state.fail(failed)
        if outcome is Outcome.FAILED:
            log.warning("trajectory failed: id=%s error=%s", failed.id, failed.error)
        if outcome is Outcome.FAILED and self._state.has_failed(failed.group):
            self._abandon(failed.group, "given up")
            if ending := self._failure_budget.given_up(failed):
                self._end(ending)
        return outcome

    def _abandon(self, group: int, why: str) -> None:
        self._state.abandon(group)
        self._journal.add_abandoned(group)
        self._traces.abandoned(group, why)
