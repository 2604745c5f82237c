"""docs/results/speed.md and its plot, from what the benches left in a folder."""

# ruff: noqa: RUF001  # of times and at least

import json
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from matplotlib.figure import Figure

from bench.runtime.steps import CASES, MEMORY_KEPT, ROUNDED
from hetrl_runtime.compute.precision import cpu_multiplies_bfloat16

ENGINES = {
    "ours": "HetRL, `transformers` engine",
    "continuous": "transformers, continuous batching",
    "generate": "transformers, `generate`",
    "vllm": "vLLM, CPU build",
}
MISSING = "-"


def write(folder: Path, page: Path) -> None:
    """Write the page; what is not measured yet says so."""
    found = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    page.write_text("\n".join(_page(found)) + "\n")
    _plot(found, page.with_suffix(".png"))


_HEAD = """\
# How fast is the runtime?

`make proof-speed` on {cores} shared CPU cores ({cpu}) that multiply bfloat16 {bfloat16} than
float32, Python {python}, commit {commit}. Each side has one thread; sides take turns, step by
step, on the same task (`bench/runtime/task.py`), model, seed, lengths, batch and learning rate.
TRL's settings are tried for some steps each; its fastest with and without continuous batching take
turns with ours, which is held against the faster. Rates are per second of *processor time*, medians
of the turns after a warm-up; the ratio by the clock stands beside them. Trained weights are float32
on both sides. The 0.1B model's files hold bfloat16, as those of nearly all published models, the
0.5M model's float32, and each version of ours is published so. What layers compute in is ours to
choose for us (`precision.py`: bfloat16, where a CPU is faster so, for products in training and in
a wide model's engine), and for TRL whatever is faster. [Speed by CPU](speed-by-cpu.md) has the
rows of other CPUs.
{note}

![Ratios](speed.png)

## Whole steps beside TRL's GRPOTrainer
"""
_STEPS = (
    "model",
    "response tokens",
    "batch",
    "ours, samples/CPU s",
    "TRL",
    "ratio",
    "ratio in tokens",
    "by the clock",
    "tokens a sample",
    "mean reward",
    "difference",
    "≥ 2×",
)
_SIDES = """\
Tokens and rewards are of the timed steps, ours and then TRL's; the difference is the mean over
steps, with its standard error: a step's prompts are the same on both sides. A row holds if it does
in samples and in tokens, and rewards are no more than two such errors lower. Only responses as long
as asked for earn something, so that their lengths stay mixed. TRL has no activation checkpointing,
no reference model (β = 0), fused AdamW, and neither logs nor saves. Ours are the engine and the
learner that workers and trainers run, in one process, synchronous, one minibatch a version; weights
go as the bytes that a trainer publishes, which TRL needs not. Both are given the same prompts in
one order. Where responses are short, both sides spend most of a step in the same products. "{kept}"
is TRL with our processes' settings of the C library (`memory.py`): no setting of its makers, and
not what ours is held against.
"""
_ROUNDED = """\
"{rounded}" is not held against ours either: before it generates so, TRL turns the model that it
trains to bfloat16 for good, and AdamW's moments with it, where all others here keep float32. Small
changes are rounded away. In turns with ours:
"""
_GENERATION = """\
Prompts of 12 tokens, eight responses each, each response's length given; all are asked for
log-probabilities of what they sample. A Qwen3 of 0.5 M parameters.
"""
_SPLIT = """\
Three simulated GPUs generate and one trains; coordinator, streams, leases and loops are real. The
simulator (`hetrl simulate`'s) plays the same pipeline for 400 steps and three seeds. η is 0 and 4,
responses have 16 to 256 tokens, B = 64.
"""


def _page(found: dict[str, Any]) -> Iterator[str]:
    yield _HEAD.format(
        cores=os.cpu_count(),
        python=platform.python_version(),
        commit=found.get("commit", {}).get("commit", MISSING),
        note=found.get("commit", {}).get("note", ""),
        cpu=torch.cpu.get_capabilities().get("cpu_name", platform.machine()),
        bfloat16="faster" if cpu_multiplies_bfloat16() else "no faster",
    )
    yield f"| {' | '.join(_STEPS)} |"
    yield "|---" * len(_STEPS) + "|"
    for case in CASES:
        yield _steps_row(case.size.name, case.lengths.name, found.get(f"steps-{case.name}"))
    yield ""
    yield from _tried(found)
    yield _SIDES.format(kept=MEMORY_KEPT)
    yield from _beside_rounded(found)
    yield "## Generation alone"
    yield ""
    yield _GENERATION
    yield "| engine | response tokens | tokens/CPU s | ours is faster by |"
    yield "|---|---|---|---|"
    for lengths in ("4-16", "16-256"):
        rates = found.get(f"generation-{lengths}", {})
        for name, label in ENGINES.items():
            rate = rates.get(name)
            ratio = f"{rates['ours'] / rate:.2f}×" if rate and "ours" in rates else MISSING
            yield f"| {label} | {lengths} | {f'{rate:,.0f}' if rate else MISSING} | {ratio} |"
    yield ""
    yield "## Asynchronous beside synchronous"
    yield ""
    yield from _split(found.get("split"))


def _steps_row(model: str, lengths: str, found: dict[str, Any] | None) -> str:
    if not found:
        return f"| {model} | {lengths} | not measured{' |' * (len(_STEPS) - 2)}"
    ours, trl = found["ours"], found["in_turns"][found["best"]]
    ratio, in_tokens = _ratios(ours, trl)
    clock = ours["samples_per_second"] / trl["samples_per_second"]
    difference, error = difference_of(ours["rewards"], trl["rewards"])
    holds = min(ratio, in_tokens) >= 2 and difference >= -2 * error
    return (
        f"| {model} | {lengths} | {found.get('batch_size', MISSING)} "
        f"| {_rate(ours)} | {_rate(trl)} "
        f"| {ratio:.2f} | {in_tokens:.2f} | {clock:.2f} "
        f"| {ours['tokens_per_sample']:.0f}, {trl['tokens_per_sample']:.0f} "
        f"| {_reward(ours):.3f}, {_reward(trl):.3f} | {difference:+.3f} ± {error:.3f} "
        f"| {'yes' if holds else '**no**'} |"
    )


def difference_of(ours: Sequence[float], trls: Sequence[float]) -> tuple[float, float]:
    """Return by how much ours are higher in the mean of timed steps, and its standard error."""
    timed = [our - trl for our, trl in zip(ours[1:], trls[1:], strict=True)]
    return fmean(timed), stdev(timed) / len(timed) ** 0.5


def _ratios(ours: dict[str, float], trl: dict[str, float]) -> tuple[float, float]:
    ratio = ours["samples_per_cpu_second"] / trl["samples_per_cpu_second"]
    return ratio, ratio * ours["tokens_per_sample"] / trl["tokens_per_sample"]


def _reward(sums: dict[str, Any]) -> float:
    return fmean(sums["rewards"][1:])


def _rate(sums: dict[str, float]) -> str:
    rounded = f"{sums['samples_per_cpu_second']:.3g}"
    return f"{float(rounded):,g}"


def _tried(found: dict[str, Any]) -> Iterator[str]:
    for case in CASES:
        if each := found.get(f"steps-{case.name}"):
            yield (
                f"TRL with {case.name}, samples/CPU s: {_rates(each['tried'])}. "
                f"In turns with ours, {_rates(each['in_turns'])}."
            )
            yield ""


def _rates(sums: dict[str, Any]) -> str:
    return "; ".join(
        f"{name}: {each if isinstance(each, str) else _rate(each)}" for name, each in sums.items()
    )


def _beside_rounded(found: dict[str, Any]) -> Iterator[str]:
    rows = [
        f"| {case.size.name} | {case.lengths.name} | {ratio:.2f} | {in_tokens:.2f} "
        f"| {_reward(each['ours']):.3f}, {_reward(each['rounded']):.3f} |"
        for case in CASES
        if (each := found.get(f"steps-{case.name}")) and each.get("rounded")
        for ratio, in_tokens in [_ratios(each["ours"], each["rounded"])]
    ]
    if rows:
        yield _ROUNDED.format(rounded=ROUNDED)
        yield "| model | response tokens | ratio | ratio in tokens | mean reward |"
        yield "|---|---|---|---|---|"
        yield from rows
        yield ""


def _split(found: dict[str, Any] | None) -> Iterator[str]:
    if not found:
        yield "Not measured."
        return
    yield _SPLIT
    yield "| mode | samples/s | predicted | measured over predicted | within 10 % |"
    yield "|---|---|---|---|---|"
    for mode, each in found.items():
        yield (
            f"| {mode} | {each['measured_samples_per_second']:.2f} "
            f"| {each['predicted_samples_per_second']:.2f} | {each['ratio']:.3f} "
            f"| {'yes' if abs(each['ratio'] - 1) <= 0.1 else '**no**'} |"
        )
    ratio = (
        found["Async"]["measured_samples_per_second"] / found["Sync"]["measured_samples_per_second"]
    )
    yield ""
    yield f"Asynchronous is {ratio:.2f}× as fast as synchronous; at least 1.3× is wanted."


def _plot(found: dict[str, Any], file: Path) -> None:
    bars: dict[str, float] = {}
    for case in CASES:
        if each := found.get(f"steps-{case.name}"):
            trl = each["in_turns"][each["best"]]
            bars[f"steps, {case.size.name}, {case.lengths.name}"], _ = _ratios(each["ours"], trl)
    for lengths in ("4-16", "16-256"):
        rates = found.get(f"generation-{lengths}", {})
        for name in ("generate", "continuous", "vllm"):
            if name in rates and "ours" in rates:
                bars[f"tokens, against {name}, {lengths}"] = rates["ours"] / rates[name]
    if each := found.get("split"):
        bars["async against sync"] = (
            each["Async"]["measured_samples_per_second"]
            / each["Sync"]["measured_samples_per_second"]
        )
    figure = Figure(figsize=(7, 0.4 * len(bars) + 1), layout="tight")
    axes = figure.subplots()
    axes.barh(list(bars), list(bars.values()), color="#3b6ea5")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("times as fast")
    axes.margins(x=0.12)
    for number, value in enumerate(bars.values()):
        axes.text(value, number, f" {value:.2f}", va="center")
    figure.savefig(file, dpi=110)
