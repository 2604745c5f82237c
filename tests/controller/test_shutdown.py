"""The time limit of a shutdown: a process exits even if a task hangs."""

import asyncio

from hetrl_operator.kopf_adapter.shutdown import GracefulShutdown


async def run(*, ends_in_time: bool) -> list[str]:
    """Let the first of two tasks fail, and return whether the process was exited."""
    exits: list[str] = []
    ending = GracefulShutdown(give_up=lambda: exits.append("given up"), seconds=0.05)

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
    return exits


def test_shutdown_that_hangs_exits_the_process() -> None:
    assert asyncio.run(run(ends_in_time=False)) == ["given up"]


def test_end_in_time_is_left_alone() -> None:
    assert asyncio.run(run(ends_in_time=True)) == []


def test_process_does_not_exit_while_all_tasks_run() -> None:
    async def goes_on() -> list[str]:
        exits: list[str] = []
        task = asyncio.create_task(asyncio.sleep(60))
        GracefulShutdown(give_up=lambda: exits.append("given up"), seconds=0.01).watch([task])
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return exits

    assert asyncio.run(goes_on()) == []
