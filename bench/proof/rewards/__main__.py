"""Judges the same answers on a machine as it is and on a busy one, and compares: the command."""

import os
import random
import sys
from pathlib import Path

from bench.proof.commit import commit
from bench.proof.rewards.answers import gsm8k_answers, math_answers
from bench.proof.rewards.judging import busy_loops, judge
from bench.proof.rewards.page import Found, page
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Unusable

RESULTS = Path("docs/results/rewards.md")
NUM_MATH, NUM_LOOPS, SEED = 500, 4, 1


def main(path: str) -> int:
    """Judge, write the page, and return 0 if all holds."""
    prompts = open_prompts(path)
    if isinstance(prompts, Unusable):
        print(prompts.message, file=sys.stderr)
        return 1
    rng = random.Random(SEED)
    problems = [prompts[index] for index in range(len(prompts))]
    answers = [*math_answers(rng, NUM_MATH), *gsm8k_answers(rng, problems)]
    load_before = os.getloadavg()[0]
    quiet = judge(answers)
    with busy_loops(NUM_LOOPS):
        busy = judge(answers)
    found = Found(answers=tuple(answers), quiet=tuple(quiet), busy=tuple(busy))
    RESULTS.write_text(page(found, commit=commit(), load=load_before, num_loops=NUM_LOOPS))
    print(RESULTS.read_text())
    return 0 if found.holds else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m bench.proof.rewards FILE")
    raise SystemExit(main(sys.argv[1]))
