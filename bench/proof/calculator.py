"""Proves that a policy learns to use its tool: `make proof-calculator`.

A model, its problems, `hetrl run` of the example, and greedy accuracy before and after with the
calculator at hand and without: each is made once, in a folder, so that a cut proof goes on.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.proof.commit import commit, machine

JOB = Path("examples/arithmetic-calculator.yaml")
RUNS = Path("runs/proof-calculator")
CLAIM, RUN = RUNS / "calculator", RUNS / "run"
PAGE, FIGURE = Path("docs/results/calculator.md"), Path("docs/results/calculator.png")

NUM_TRAINING_PROBLEMS, NUM_HELD_OUT_PROBLEMS = 4000, 500
LEAST_GAINED = 0.3
"""Of the mean reward, from the first step to the last ones."""


def main() -> int:
    """Do what is missing, write the page, and tell whether the reward rose."""
    _make()
    if not (RUN / "report" / "summary.json").exists():
        shutil.rmtree(RUN, ignore_errors=True)
        (RUNS / "commit").write_text(commit())
        _hetrl("run", JOB, "--out", RUN, "--claim", f"calculator={CLAIM}")
    models = {"before": CLAIM / "model", "after": max((RUN / "checkpoints").glob("step-*"))}
    found = {
        (when, has_tool): _evaluated(when, model, has_tool=has_tool)
        for when, model in models.items()
        for has_tool in (True, False)
    }
    summary = json.loads((RUN / "report" / "summary.json").read_text())
    shutil.copyfile(RUN / "report" / "reward.png", FIGURE)
    PAGE.write_text("\n".join(_page(summary, found)) + "\n")
    print(PAGE.read_text())
    return int(summary["reward_final"] - summary["reward_first"] < LEAST_GAINED)


def _make() -> None:
    if not (CLAIM / "model").exists():
        _hetrl("make-model", CLAIM / "model", "--task", "products")
    for name, split, count in (
        ("train.jsonl", "train", NUM_TRAINING_PROBLEMS),
        ("held-out.jsonl", "held-out", NUM_HELD_OUT_PROBLEMS),
    ):
        if not (CLAIM / name).exists():
            _hetrl(
                "make-data",
                CLAIM / name,
                "--task",
                "products",
                "--split",
                split,
                "--count",
                count,
            )


def _evaluated(when: str, model: Path, *, has_tool: bool) -> dict[str, Any]:
    kept = RUNS / f"{when}-{'with' if has_tool else 'without'}.json"
    if not kept.exists():
        kept.write_text(
            _hetrl(
                "evaluate",
                "--model",
                model,
                "--data",
                CLAIM / "held-out.jsonl",
                "--reward",
                "exact",
                "--max-prompt-tokens",
                16,
                "--max-response-tokens",
                32,
                *(["--tool", "calculator"] if has_tool else []),
                capture=True,
            )
        )
    return dict(json.loads(kept.read_text()))


def _page(summary: dict[str, Any], found: dict[tuple[str, bool], dict[str, Any]]) -> Iterator[str]:
    yield "# Does a policy learn to call its tool?"
    yield ""
    yield (
        f"`make proof-calculator` on {machine()}, commit {(RUNS / 'commit').read_text()}: "
        f"`hetrl run {JOB}`, {summary['steps']} steps of GRPO on products of two three-digit "
        "numbers. The model was shown both ways beforehand, one problem in four with a call of "
        "the calculator; rewards say which one pays."
    )
    yield ""
    yield "![reward, and the share of responses that call the tool](calculator.png)"
    yield ""
    yield "| | first step | last ten steps |"
    yield "|---|---|---|"
    for name, key in (("mean reward", "reward"), ("share that calls the calculator", "tool_share")):
        yield f"| {name} | {summary[f'{key}_first']:.3f} | {summary[f'{key}_final']:.3f} |"
    yield ""
    count = found["before", True]["count"]
    yield f"Greedy, on {count:,} held-out products:"
    yield ""
    yield "| | solved with the calculator | answered with a call | solved without one at hand |"
    yield "|---|---|---|---|"
    for when in ("before", "after"):
        with_tool, without = found[when, True], found[when, False]
        yield (
            f"| {when} | {with_tool['accuracy']:.1%} | {with_tool['called_tools'] / count:.1%} "
            f"| {without['accuracy']:.1%} |"
        )
    yield ""
    yield (
        f"Staleness trained on: mean {summary['staleness_mean']:.2f}, largest "
        f"{summary['staleness_max']} of {summary['max_staleness']}."
    )


def _hetrl(*arguments: object, capture: bool = False) -> str:
    done = subprocess.run(
        [Path(sys.executable).parent / "hetrl", *map(str, arguments)],
        check=True,
        text=True,
        stdout=subprocess.PIPE if capture else None,
    )
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
