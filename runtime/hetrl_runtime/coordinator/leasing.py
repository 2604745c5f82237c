"""Leases of prompts: each group's prompt is read, and left out of the run if it cannot be.

``state`` decides how many may go out. ``journal`` has each lease before its answer leaves.
"""

import json
from collections.abc import Callable

from hetrl_runtime.coordinator.journal.run_journal import RunJournal
from hetrl_runtime.coordinator.reporting.reporting import Reporting
from hetrl_runtime.coordinator.rules.open_groups import GroupLease
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.coordinator.rules.state import RunState, WorkerBehind
from hetrl_runtime.data.left_out import LeftOutPrompt, LeftOutReason
from hetrl_runtime.tracing.groups import GroupTraces
from hetrl_runtime.wire.trajectory import FailedTrajectory
from hetrl_runtime.wire.values import Ending, PromptLease


class Leasing:
    """The leases of one run's prompts, and the prompts that the run leaves out."""

    def __init__(
        self,
        state: RunState,
        journal: RunJournal,
        reporting: Reporting,
        traces: GroupTraces,
        *,
        prompts: Prompts,
        may_lease: Callable[[], bool],
        end: Callable[[Ending], None],
    ) -> None:
        self._state = state
        self._journal = journal
        self._reporting = reporting
        self._traces = traces
        self._prompts = prompts
        self._may_lease = may_lease
        self._end = end

    def lease(
        self, process: str, *, worker_version: int, max_trajectories: int, now: float
    ) -> tuple[PromptLease, ...] | WorkerBehind:
        """Lease prompts to a worker, as many as the bound allows."""
        leases: tuple[PromptLease, ...] = ()
        # Prompts that cannot be read are left out, and the last of them ends the run.
        while self._may_lease() and not leases:
            groups = self._state.lease(
                process, worker_version=worker_version, max_trajectories=max_trajectories, now=now
            )
            if isinstance(groups, WorkerBehind) or not groups:
                self._traces.waits(process, now=now)
                return groups if isinstance(groups, WorkerBehind) else ()
            ids = [identity for group in groups for identity in group.ids]
            self._journal.write_lease(process, ids, worker_version=worker_version)
            leases = tuple(each for each in map(self._prompt_lease, groups) if each)
        if not leases:
            return ()
        return self._traces.leased(process, leases, worker_version=worker_version, now=now)

    def leave_out(self, prompt: LeftOutPrompt) -> None:
        """Leave a prompt out of all passes; end the run where none is left."""
        if not self._prompts.leave_out(prompt):
            return
        self._reporting.add_left_out(prompt)
        if ending := self._prompts.ending:
            self._end(ending)

    def leave_out_failed(self, failed: FailedTrajectory) -> None:
        """Leave out the prompt of a trajectory, for the reason that its worker names."""
        known = failed.left_out in set(LeftOutReason)
        reason = LeftOutReason(failed.left_out) if known else LeftOutReason.ROW_UNREADABLE
        self._leave_out_group(failed.group, reason, failed.error)

    def _prompt_lease(self, group: GroupLease) -> PromptLease | None:
        """Return a lease with its prompt; None where the prompt cannot be read, and is left out."""
        try:
            prompt = self._prompts.of_group(group.group)
            columns = json.dumps(dict(prompt.columns), default=str) if prompt.columns else ""
        except (OSError, ValueError, RecursionError) as error:
            self._state.abandon(group.group)
            self._journal.add_abandoned(group.group)
            self._leave_out_group(group.group, LeftOutReason.ROW_UNREADABLE, str(error))
            return None
        return PromptLease(
            epoch=self._state.epoch,
            group=group.group,
            members=group.members,
            question=prompt.question,
            answer=prompt.answer,
            columns=columns,
            messages=json.dumps(prompt.messages) if prompt.messages else "",
        )

    def _leave_out_group(self, group: int, reason: LeftOutReason, detail: str) -> None:
        index = self._prompts.index(group)
        line, set_name = index + 1, ""
        if reason is not LeftOutReason.ROW_UNREADABLE:
            prompt = self._prompts.of_group(group)
            line, set_name = prompt.line, prompt.set_name
        self.leave_out(
            LeftOutPrompt(index=index, line=line, set_name=set_name, reason=reason, detail=detail)
        )
