"""Starts of evolution: the number of GPUs of each group (level 2), and roughly which.

Groups get GPUs roughly in proportion to the work of their tasks. Sites are divided in a random
order, so that each start favours other kinds for other groups.
"""

from collections.abc import Sequence

import numpy as np

from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.genome import Counts, Genome
from hetrl_planner.hetrl.genome.groupings import Grouping
from hetrl_planner.hetrl.genome.screen import Screen
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.fit.fitting import SplitFitter

SPREAD = 0.6
"""Standard deviation of the logarithm of the variation of a group's share of GPUs. Ours."""

MAX_REPEATS = 20
"""Draws that cannot fit, after which such a draw is returned."""


class Starts:
    """First genomes of one job on one fleet."""

    def __init__(self, fitting: SplitFitter, rng: np.random.Generator) -> None:
        self._devices: Devices = fitting.devices
        self._rng = rng
        self._screen = Screen(fitting)
        self._work = {task: _gpu_seconds(task, fitting) for task in fitting.work.tasks}

    def genome(self, grouping: Grouping, *, spread: float = SPREAD) -> Genome:
        """Return a genome whose groups have about the GPUs that they need, and may fit."""
        for _ in range(MAX_REPEATS):
            found = self._screen.plain(self._drawn(grouping, spread))
            if self._screen.may_fit(found):
                break
            spread = max(spread, SPREAD)
        return found

    def _drawn(self, grouping: Grouping, spread: float) -> Genome:
        wanted = np.array([sum(self._work[task] for task in group) for group in grouping])
        wanted = wanted * self._rng.lognormal(0.0, spread, size=len(grouping))
        order = self._order()
        return Genome(
            grouping=grouping,
            counts=self._dealt(_whole(wanted, self._devices.num_gpus), order),
            order=order,
            leaves_room=bool(self._rng.integers(2)),
            is_packed=self._screen.packs,
        )

    def _order(self) -> tuple[int, ...]:
        """Return the machines, those of a site together, sites at random."""
        by_site: dict[int, list[int]] = {}
        for machine, site in enumerate(self._devices.machine_sites):
            by_site.setdefault(site, []).append(machine)
        sites = list(by_site)
        return tuple(
            machine
            for number in self._rng.permutation(len(sites))
            for machine in by_site[sites[int(number)]]
        )

    def _dealt(self, wanted: Sequence[int], order: Sequence[int]) -> Counts:
        """Assign GPUs in order, group after group in a random order of groups."""
        rows = [[0] * len(wanted) for _ in self._devices.machine_sizes]
        left = [(int(group), wanted[int(group)]) for group in self._rng.permutation(len(wanted))]
        for machine in order:
            free = self._devices.machine_sizes[machine]
            while free and left:
                group, more = left[0]
                taken = min(free, more)
                rows[machine][group] += taken
                free -= taken
                left[0] = (group, more - taken)
                if more == taken:
                    left.pop(0)
        return tuple(tuple(row) for row in rows)


def _whole(wanted: "np.ndarray[tuple[int], np.dtype[np.float64]]", total: int) -> list[int]:
    """Divide ``total`` in proportion, at least one each while there is enough for all."""
    exact = wanted / wanted.sum() * total
    counts = np.maximum(1, np.floor(exact)).astype(int)
    while counts.sum() > total and counts.max() > 1:
        counts[int(np.argmax(counts))] -= 1
    for number in np.argsort(exact - counts)[::-1]:
        if counts.sum() < total:
            counts[int(number)] += 1
    return [int(count) for count in counts]


def _gpu_seconds(task: Task, fitting: SplitFitter) -> float:
    """Return about how long one GPU of an average site would take for a batch."""
    rates = [fitting.rate_per_gpu(task, site) for site in range(len(fitting.devices.sites))]
    possible = [rate for rate in rates if rate]
    batch = fitting.work.batch_size
    return batch / float(np.mean(possible)) if possible else float(batch)
