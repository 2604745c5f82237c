"""Effect of the strict check: runs with it and without it."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from hetrl_runtime.coordinator.rules.state import RunState
from hetrl_runtime.wire.trajectory import TrajectoryId
from tests.runtime.coordinator.states import a_state, deliver, lease


@dataclass
class SlowWorkers:
    """Workers that are slow at every sixth group and deliver it versions later."""

    state: RunState
    lateness: int
    waiting: list[tuple[int, TrajectoryId, int]] = field(default_factory=list)

    def work(self) -> None:
        """Lease all there is; deliver the quick at once and the slow when they are due."""
        version = self.state.version
        due = [each for each in self.waiting if each[0] <= version]
        self.waiting = [each for each in self.waiting if each[0] > version]
        for _, identity, began in due:
            deliver(self.state, identity, began)
        for identity in lease(self.state, 6):
            if identity.group % 6 == 0:
                self.waiting.append((version + self.lateness, identity, version))
            else:
                deliver(self.state, identity, version)


def staleness_trained_on(*, checks_consumption: bool, max_staleness: int) -> Counter[int]:
    """Train 40 versions beside slow workers; return the histogram of what was consumed."""
    state = a_state(
        max_staleness=max_staleness,
        group_size=2,
        batch_size=8,
        checks_consumption=checks_consumption,
    )
    workers = SlowWorkers(state, lateness=max_staleness + 1)
    histogram: Counter[int] = Counter()
    idle_rounds = 0
    while state.version < 40:
        workers.work()
        batch = state.batch()
        if batch:
            histogram.update(state.version - each.oldest_version for each in batch)
            state.commit(state.version + 1, consumed=[each.id for each in batch])
        idle_rounds = 0 if batch else idle_rounds + 1
        if idle_rounds > 3:
            # Only the slow are left: their leases run out while the trainer waits.
            for _, identity, began in workers.waiting:
                deliver(state, identity, began)
            workers.waiting.clear()
    return histogram


# On-policy nothing is in flight beyond the batch that is waited for: none can be late.
@pytest.mark.parametrize("max_staleness", [1, 2, 4])
def test_strict_check_alone_keeps_the_bound(
    max_staleness: int,
) -> None:
    unchecked = staleness_trained_on(checks_consumption=False, max_staleness=max_staleness)
    checked = staleness_trained_on(checks_consumption=True, max_staleness=max_staleness)

    assert max(unchecked) > max_staleness
    assert max(checked) <= max_staleness
    assert checked.total() == unchecked.total() == 40 * 8
