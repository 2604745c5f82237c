"""A process that is to end does, also where some part of it never would."""

import asyncio

from hetrl_operator.kopf_adapter.shutdown import GracefulShutdown


async def run(*, ends_in_time: bool) -> list[str]:
    """Let the first of two tasks fail, and say whether the process was given up."""
    told: list[str] = []
    ending = GracefulShutdown(give_up=lambda: told.append("given up"), seconds=0.05)

    async def fails() -> None:
        raise RuntimeError("the watch ended")

    tasks = [asyncio.create_task(fails()), asyncio.create_task(asyncio.sleep(60))]
    ending.watch(tasks)
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    if ends_in_time:
        ending.over()
    await asyncio.sleep(0.2)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return told


def test_an_end_that_hangs_is_given_up() -> None:
    assert asyncio.run(run(ends_in_time=False)) == ["given up"]


def test_an_end_in_time_is_left_alone() -> None:
    assert asyncio.run(run(ends_in_time=True)) == []


def test_nothing_is_given_up_while_all_goes_on() -> None:
    async def goes_on() -> list[str]:
        told: list[str] = []
        task = asyncio.create_task(asyncio.sleep(60))
        GracefulShutdown(give_up=lambda: told.append("given up"), seconds=0.01).watch([task])
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return told

    assert asyncio.run(goes_on()) == []
