"""Transfers of weights: from the trainer over links into regions, then into each replica.

A route carries one version at a time; those published meanwhile are skipped but for the
newest. Routes over one link share its bandwidth.
"""

from collections.abc import Sequence

from hetrl_planner.simulator.events.calendar import Calendar
from hetrl_planner.simulator.events.paced import PacedWork
from hetrl_planner.simulator.pipeline.pipeline import WeightRoute
from hetrl_planner.simulator.serving.replica import Replica


class Route:
    """The weights of one region: the arrived version, the one in transfer, and the next."""

    def __init__(self, spec: WeightRoute, replicas: Sequence[Replica]) -> None:
        self.spec = spec
        self._replicas = replicas
        self._wanted: int | None = None
        self._travelling: int | None = None
        self.arrived = 0
        self.num_transfers = 0
        self.link: PacedWork[Route]

    def publish(self, version: int) -> None:
        """Send a version as soon as the route is free."""
        self._wanted = version
        if self._travelling is None:
            self._depart()

    def arrive(self) -> None:
        """Load the version into every running replica, and send the next."""
        assert self._travelling is not None
        self.arrived, self._travelling = self._travelling, None
        for replica in self._replicas:
            replica.load(self.arrived, seconds=self.spec.load_seconds)
        if self._wanted is not None:
            self._depart()

    def restart(self, replica: Replica) -> None:
        """Restart a lost replica with the region's version."""
        replica.recover(self.arrived, seconds=self.spec.load_seconds)

    def _depart(self) -> None:
        self._travelling, self._wanted = self._wanted, None
        self.num_transfers += 1
        if not self.spec.transfer_seconds:
            self.arrive()
            return
        self.link.settle()
        self.link.add(self, self.spec.transfer_seconds)
        self.link.schedule_next_end()


def connect(calendar: Calendar, routes: Sequence[Route]) -> None:
    """Assign routes to their links; parallel transfers share a link's bandwidth."""
    by_link: dict[str, list[Route]] = {}
    for number, route in enumerate(routes):
        by_link.setdefault(route.spec.link or f"only route {number}", []).append(route)
    for sharing in by_link.values():
        pace = [float(each) for each in range(len(sharing) + 1)]
        link = PacedWork[Route](calendar, pace, _arrive)
        for route in sharing:
            route.link = link


def _arrive(routes: list[Route]) -> None:
    for route in routes:
        route.arrive()
