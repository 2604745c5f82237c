"""Proves that the math verifier judges GSM8K rightly and in time: `make proof-gsm8k DATA=...`.

On a file of GSM8K: every reference answer is right beside itself, and beside its neighbour's
only where both are equal; then a thousand malformed responses, cut, garbled and hostile, each
judged as a rollout worker judges them. No more than the file is read; the page says what came.
"""

import asyncio
import logging
import platform
import random
import statistics
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.proof.malformed import malformed
from hetrl_core.job.spec import DataSpec
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Prompt, Unusable
from hetrl_runtime.data.reference_answer import target
from hetrl_runtime.reward.scoring import JUDGE_CPU_SECONDS, VerifierPool
from hetrl_runtime.reward.verdict import Response, Unjudged, Verdict
from hetrl_runtime.reward.verifiers import verifier

RESULTS = Path("docs/results/gsm8k.md")
NUM_MALFORMED = 1_000
FAST_SECONDS = 0.05
SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A response, what it is worth, and how long that took."""

    response: str
    reward: Verdict
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that the proof found out."""

    count: int
    not_themselves: tuple[str, ...]
    """Answers that are not worth 1 beside themselves."""

    equal_neighbours: int
    wrong_neighbours: tuple[str, ...]
    """Pairs whose reward is not whether they are equal."""

    judged: tuple[Judged, ...]

    @property
    def slow(self) -> tuple[Judged, ...]:
        """Return responses that took longer than what counts as fast, slowest first."""
        slow = (each for each in self.judged if each.seconds >= FAST_SECONDS)
        return tuple(sorted(slow, key=lambda each: -each.seconds))

    @property
    def num_unjudged(self) -> int:
        """Return how many responses got no reward, by the limit of processor time or a fault."""
        return sum(isinstance(each.reward, Unjudged) for each in self.judged)

    @property
    def holds(self) -> bool:
        """Tell whether the verifier does what it must."""
        is_right = not self.not_themselves and not self.wrong_neighbours
        is_fast = len(self.slow) <= len(self.judged) / 100
        return is_right and is_fast and not self.num_unjudged


def main(path: str) -> int:
    """Judge, write the page, and tell whether all holds."""
    prompts = open_prompts(path)
    if isinstance(prompts, Unusable):
        print(prompts.message, file=sys.stderr)
        return 1
    problems = [prompts[index] for index in range(len(prompts))]
    found = prove(problems)
    RESULTS.write_text(page(found))
    print(RESULTS.read_text())
    return 0 if found.holds else 1


def prove(problems: list[Prompt], *, num_malformed: int = NUM_MALFORMED) -> Found:
    """Hold the verifier against the reference answers, and what grows out of them."""
    score = verifier("math")
    answers = [each.answer for each in problems]
    neighbours = list(pairwise(answers))
    rng = random.Random(SEED)
    responses = [malformed(rng, rng.choice(answers)) for _ in range(num_malformed)]
    return Found(
        count=len(answers),
        not_themselves=tuple(each for each in answers if score(each, each) != 1.0),
        equal_neighbours=sum(target(one) == target(other) for one, other in neighbours),
        wrong_neighbours=tuple(
            f"{target(one)} and {target(other)}"
            for one, other in neighbours
            if score(one, other) != float(_number(one) == _number(other))
        ),
        judged=asyncio.run(_judge(responses, rng.choices(answers, k=num_malformed))),
    )


def _number(answer: str) -> float:
    return float(target(answer).replace(",", ""))


async def _judge(responses: list[str], answers: list[str]) -> tuple[Judged, ...]:
    judged = []
    async with VerifierPool(DataSpec(prompts="").parts) as pool:
        await pool.score(Response(text="1", reference="1"))  # It has started.
        for response, answer in zip(responses, answers, strict=True):
            begun = time.perf_counter()
            reward = await pool.score(Response(text=response, reference=answer))
            judged.append(
                Judged(response=response, reward=reward, seconds=time.perf_counter() - begun)
            )
    return tuple(judged)


def page(found: Found) -> str:
    """Write down what was found."""
    times = sorted(each.seconds * 1e3 for each in found.judged)
    fast = len(times) - len(found.slow)
    lines = [
        "# Does the verifier judge GSM8K rightly, and in time?",
        "",
        f"`make proof-gsm8k DATA=...` on a GSM8K file of {found.count:,} problems, "
        f"Python {platform.python_version()}.",
        "",
        "| what | must be | found |",
        "|---|---|---|",
        f"| reference answers that score 1 against themselves | {found.count:,} "
        f"| {found.count - len(found.not_themselves):,} |",
        f"| neighbours judged other than their numbers are | 0 | {len(found.wrong_neighbours)} "
        f"({found.equal_neighbours} of {found.count - 1:,} pairs are equal) |",
        f"| malformed responses that crashed the worker | 0 of {len(times):,} | 0 |",
        f"| judged within {FAST_SECONDS * 1e3:.0f} ms | 99 % | {fast / len(times):.1%} |",
        f"| not judged: more than {JUDGE_CPU_SECONDS:g} s of processor time | 0 "
        f"| {found.num_unjudged} |",
        f"| slowest | | {times[-1]:.0f} ms |",
        f"| median, 95th percentile | | {statistics.median(times):.1f} ms, "
        f"{times[int(0.95 * len(times))]:.1f} ms |",
        f"| malformed, yet right | | {sum(each.reward == 1.0 for each in found.judged)} |",
        "",
        f"Malformed responses are references cut, garbled, repeated, or with hostile mathematics "
        f"in them (`bench/proof/malformed.py`, seed {SEED}). Those that took longer:",
        "",
        "| milliseconds | reward | response |",
        "|---|---|---|",
        *(
            f"| {each.seconds * 1e3:.0f} | {each.reward} | `{_shown(each.response)}` |"
            for each in found.slow
        ),
        "",
        *(f"- not itself: `{_shown(each)}`" for each in found.not_themselves),
        *(f"- wrong: {each}" for each in found.wrong_neighbours),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _shown(response: str) -> str:
    text = ascii(response)[1:-1].replace("|", "\\|").replace("`", "'")
    return text if len(text) <= 100 else f"{text[:60]}…{text[-30:]} ({len(response):,} characters)"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m bench.proof.gsm8k FILE")
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    raise SystemExit(main(sys.argv[1]))
