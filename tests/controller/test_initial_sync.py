import asyncio
from collections.abc import Iterable

from kopf._core.reactor import orchestration

from hetrl_operator.kopf_adapter.initial_sync import InitialSync, QuietSet

NUM_OBJECTS = 500


def counting() -> tuple[QuietSet, list[int]]:
    """A set that is on when all of it is, and how often anybody asked."""
    asked: list[int] = []

    def are_on(states: Iterable[bool]) -> bool:
        asked.append(1)
        return all(states)

    return QuietSet(are_on), asked


async def test_workers_that_wait_for_all_objects_are_woken_once() -> None:
    quiet_set, asked = counting()
    blocker = await quiet_set.make_toggle(name="listing")

    async def worker() -> None:
        mine = await quiet_set.make_toggle()
        await quiet_set.drop_toggle(mine)
        await quiet_set.wait_for(True)

    workers = []
    for _ in range(NUM_OBJECTS):
        workers.append(asyncio.create_task(worker()))
        # As a list comes: others run in between.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not any(each.done() for each in workers)
    await quiet_set.drop_toggle(blocker)

    await asyncio.wait_for(asyncio.gather(*workers), timeout=30)
    assert len(asked) <= 7 * NUM_OBJECTS, "some were woken again and again"


async def test_waiter_hears_when_any_toggle_is_off() -> None:
    quiet_set, _ = counting()
    waiting = asyncio.create_task(quiet_set.wait_for(False))
    await asyncio.sleep(0)

    blocker = await quiet_set.make_toggle()
    await asyncio.wait_for(waiting, timeout=30)
    assert quiet_set.is_off()

    waiting = asyncio.create_task(quiet_set.wait_for(True))
    await asyncio.sleep(0)
    await blocker.turn_to(True)
    await asyncio.wait_for(waiting, timeout=30)
    assert quiet_set.is_on()


def test_kopf_makes_its_sets_of_ours() -> None:
    InitialSync().install()

    assert isinstance(orchestration.aiotoggles.ToggleSet(all), QuietSet)


async def test_initial_sync_needs_known_kinds_and_indexed_objects() -> None:
    initial_sync = InitialSync()
    initial_sync.install()
    assert not initial_sync.has_synced()
    indexed, paused = (orchestration.aiotoggles.ToggleSet(each) for each in (all, any))
    await paused.make_toggle(True)
    await paused.make_toggle(True)

    # As kopf goes about it: first it knows of no kind, then of one, and then of its object.
    found = [initial_sync.has_synced()]
    looking = await indexed.make_toggle()
    await indexed.drop_toggle(looking)
    found.append(initial_sync.has_synced())
    looking, kind = await indexed.make_toggle(), await indexed.make_toggle()
    await indexed.drop_toggle(looking)
    found.append(initial_sync.has_synced())
    an_object = await indexed.make_toggle()
    await indexed.drop_toggle(kind)
    found.append(initial_sync.has_synced())
    await indexed.drop_toggle(an_object)

    assert found == [False] * 4
    assert initial_sync.has_synced()
    await indexed.make_toggle()
    assert initial_sync.has_synced(), "a kind that comes later does not end it"
