"""Verdicts of the pool that rollout workers use, with the processor time of each."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.proof.rewards.answers import Answer
from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward import scoring
from hetrl_runtime.reward.scoring import VerifierPool
from hetrl_runtime.reward.verdict import Response, Unjudged, Verdict

_PARTS = DataSpec(prompts="").parts
_IN_FLIGHT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdict on an answer."""

    verdict: Verdict
    cpu_seconds: float
    """Of the process that judged it; 0 where it gave no verdict."""

    @property
    def is_judged(self) -> bool:
        """Whether there is a reward."""
        return not isinstance(self.verdict, Unjudged)


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep so many processes computing meanwhile."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])  # our own code
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def judge(answers: Sequence[Answer]) -> list[Judged]:
    """Judge answers in processes that have judged none before."""
    return asyncio.run(_judge(answers))


async def _judge(answers: Sequence[Answer]) -> list[Judged]:
    turns = asyncio.Semaphore(_IN_FLIGHT)
    async with VerifierPool(_PARTS) as pool:

        async def one(answer: Answer) -> Judged:
            async with turns:
                return await _timed(pool, answer)

        return list(await asyncio.gather(*map(one, answers)))


async def _timed(pool: VerifierPool, answer: Answer) -> Judged:
    asked = pool._pool.schedule(  # the real pool, and a clock beside each judgement
        judged_in_process, args=[_PARTS[0].name, answer.response, answer.reference]
    )
    try:
        verdict, cpu_seconds = await asyncio.wrap_future(asked)
    except Exception:  # Its process has ended: the pool says why, as to a worker.
        verdict = await pool.score(Response(text=answer.response, reference=answer.reference))
        cpu_seconds = 0.0
    return Judged(verdict=verdict, cpu_seconds=cpu_seconds)


def judged_in_process(part: str, text: str, reference: str) -> tuple[Verdict, float]:
    """Judge as a pool's process does, and measure its processor time."""
    begun = time.process_time()
    verdict = scoring._score(part, text, reference, "", "{}")  # as above
    return verdict, time.process_time() - begun
