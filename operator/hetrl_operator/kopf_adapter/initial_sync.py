"""kopf's sets of toggles, made to wake who waits only when the set has turned, and to be asked.

At its start kopf makes a toggle of every object that it lists, and each object's worker waits until
all are indexed. kopf itself wakes all workers at each toggle's coming and going: with a thousand
jobs, of fourteen thousand objects, that takes minutes, in which no job is looked at. Nor does kopf
tell when all are indexed; the set that its workers wait for does.
"""

from collections.abc import Callable, Iterable

from kopf._cogs.aiokits import aiotoggles


class ToggleSet(aiotoggles.ToggleSet):  # type: ignore[misc]  # kopf ships no types
    """What kopf's is, but quiet while nothing turns."""

    has_waited: bool = False
    """Whether it was of several toggles once. One alone is kopf's while it looks for kinds."""

    async def make_toggle(
        self, state: bool = False, *, name: str | None = None
    ) -> aiotoggles.Toggle:
        """Add a toggle."""
        was_on = self.is_on()
        toggle = aiotoggles.Toggle(state, name=name, condition=self._condition)
        self._toggles.add(toggle)
        self.has_waited = self.has_waited or len(self._toggles) > 1
        await self._tell(was_on)
        return toggle

    async def drop_toggle(self, toggle: aiotoggles.Toggle) -> None:
        """Take one out."""
        await self.drop_toggles((toggle,))

    async def drop_toggles(self, toggles: Iterable[aiotoggles.Toggle]) -> None:
        """Take some out."""
        was_on = self.is_on()
        self._toggles.difference_update(toggles)
        await self._tell(was_on)

    async def _tell(self, was_on: bool) -> None:
        if self.is_on() != was_on:
            async with self._condition:
                self._condition.notify_all()


class Lists:
    """What kopf lists at its start: every object that there is of the kinds that are watched."""

    def __init__(self) -> None:
        self._toggles: list[ToggleSet] = []
        self._are_in = False

    def are_in(self) -> bool:
        """Tell whether all have come and are indexed: from then on jobs are looked at.

        It stays so when a kind is watched later: what is known by then is looked at meanwhile.
        """
        self._are_in = self._are_in or any(
            each.has_waited and each.is_on() for each in self._toggles
        )
        return self._are_in

    def quieten(self) -> None:
        """Have kopf make its sets of toggles of ours; before it is started."""
        toggles = self._toggles

        class Kept(ToggleSet):
            def __init__(self, turn_on: Callable[[Iterable[bool]], bool]) -> None:
                super().__init__(turn_on)
                # Of any: whether it is paused. Of all: whether lists are in.
                if turn_on is all:
                    toggles.append(self)

        aiotoggles.ToggleSet = Kept
