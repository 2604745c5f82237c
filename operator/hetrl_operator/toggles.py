"""kopf's sets of toggles, with a word to those who wait only when the set has turned.

At its start kopf makes a toggle of every object that it lists, and each object's worker waits until
all are indexed. kopf itself wakes all workers at each toggle's coming and going: with a thousand
jobs, of fourteen thousand objects, that takes minutes, in which no job is looked at.
"""

from collections.abc import Iterable

from kopf._cogs.aiokits import aiotoggles


class ToggleSet(aiotoggles.ToggleSet):  # type: ignore[misc]  # kopf ships no types
    """What kopf's is, but quiet while nothing turns."""

    async def make_toggle(
        self, state: bool = False, *, name: str | None = None
    ) -> aiotoggles.Toggle:
        """Add a toggle."""
        was_on = self.is_on()
        toggle = aiotoggles.Toggle(state, name=name, condition=self._condition)
        self._toggles.add(toggle)
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


def quieten() -> None:
    """Have kopf make its sets of toggles of these; before it is started."""
    aiotoggles.ToggleSet = ToggleSet
