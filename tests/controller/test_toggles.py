import asyncio
from collections.abc import Iterable

from kopf._core.reactor import orchestration

from hetrl_operator.toggles import ToggleSet, quieten

NUM_OBJECTS = 500


def counting() -> tuple[ToggleSet, list[int]]:
    """A set that is on when all of it is, and how often anybody asked."""
    asked: list[int] = []

    def are_on(states: Iterable[bool]) -> bool:
        asked.append(1)
        return all(states)

    return ToggleSet(are_on), asked


async def test_workers_that_wait_for_all_objects_are_woken_once() -> None:
    toggles, asked = counting()
    blocker = await toggles.make_toggle(name="listing")

    async def worker() -> None:
        mine = await toggles.make_toggle()
        await toggles.drop_toggle(mine)
        await toggles.wait_for(True)

    workers = []
    for _ in range(NUM_OBJECTS):
        workers.append(asyncio.create_task(worker()))
        # As a list comes: others run in between.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not any(each.done() for each in workers)
    await toggles.drop_toggle(blocker)

    await asyncio.wait_for(asyncio.gather(*workers), timeout=30)
    assert len(asked) <= 7 * NUM_OBJECTS, "some were woken again and again"


async def test_who_waits_for_any_to_be_off_hears_of_it() -> None:
    toggles, _ = counting()
    waiting = asyncio.create_task(toggles.wait_for(False))
    await asyncio.sleep(0)

    toggle = await toggles.make_toggle()
    await asyncio.wait_for(waiting, timeout=30)
    assert toggles.is_off()

    waiting = asyncio.create_task(toggles.wait_for(True))
    await asyncio.sleep(0)
    await toggle.turn_to(True)
    await asyncio.wait_for(waiting, timeout=30)
    assert toggles.is_on()


def test_kopf_makes_its_sets_of_ours() -> None:
    quieten()

    assert isinstance(orchestration.aiotoggles.ToggleSet(all), ToggleSet)
