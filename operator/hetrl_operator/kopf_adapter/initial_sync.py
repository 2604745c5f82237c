"""The initial sync: whether kopf has indexed every object of its first lists.

At its start kopf creates a toggle for every listed object, and each object's worker waits until all
are indexed. kopf wakes all workers whenever a toggle is added or removed: with a thousand jobs and
fourteen thousand objects that takes minutes, in which no job is reconciled. The toggle set below
wakes them only when its state changes. It also reports the state, which kopf does not.
"""

from collections.abc import Callable, Iterable

from kopf._cogs.aiokits import aiotoggles


class QuietSet(aiotoggles.ToggleSet):  # type: ignore[misc]  # kopf ships no types
    """A toggle set that notifies its waiters only when its state changes."""

    has_held_several: bool = False
    """Whether it ever held several toggles. kopf holds a single one while it scans resources."""

    async def make_toggle(
        self, state: bool = False, *, name: str | None = None
    ) -> aiotoggles.Toggle:
        """Add a new toggle."""
        was_on = self.is_on()
        toggle = aiotoggles.Toggle(state, name=name, condition=self._condition)
        self._toggles.add(toggle)
        self.has_held_several = self.has_held_several or len(self._toggles) > 1
        await self._notify(was_on)
        return toggle

    async def drop_toggle(self, toggle: aiotoggles.Toggle) -> None:
        """Remove a toggle."""
        await self.drop_toggles((toggle,))

    async def drop_toggles(self, toggles: Iterable[aiotoggles.Toggle]) -> None:
        """Remove several toggles."""
        was_on = self.is_on()
        self._toggles.difference_update(toggles)
        await self._notify(was_on)

    async def _notify(self, was_on: bool) -> None:
        if self.is_on() != was_on:
            async with self._condition:
                self._condition.notify_all()


class InitialSync:
    """The state of kopf's first lists of all watched kinds."""

    def __init__(self) -> None:
        self._sets: list[QuietSet] = []
        self._has_synced = False

    def has_synced(self) -> bool:
        """Tell whether all listed objects are indexed; jobs are reconciled from then on.

        Once true it stays true, also when kopf starts to watch another kind later.
        """
        self._has_synced = self._has_synced or any(
            each.has_held_several and each.is_on() for each in self._sets
        )
        return self._has_synced

    def install(self) -> None:
        """Make kopf use this module's toggle sets. Call it before kopf starts."""
        sets = self._sets

        class Kept(QuietSet):
            def __init__(self, turn_on: Callable[[Iterable[bool]], bool]) -> None:
                super().__init__(turn_on)
                # kopf uses ``any`` for pausing and ``all`` for its first lists.
                if turn_on is all:
                    sets.append(self)

        aiotoggles.ToggleSet = Kept
