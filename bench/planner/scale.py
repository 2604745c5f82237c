"""Seconds, memory and gap of a plan against the size of the fleet, 64 to 10,240 GPUs.

``python -m bench.planner.scale`` writes ``docs/results/scale.md`` and its picture. Every size is
planned by a process of its own, as ``hetrl plan`` would, so that its memory can be measured; sizes
that are done are kept until --fresh forgets them.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import matplotlib

from bench.planner import scenarios
from bench.planner.played import job_of
from bench.planner.records import RESULTS, RUNS, Record, commit, kept, machine
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.plan.plan import Plan
from hetrl_planner.plan_job import plan

matplotlib.use("Agg")
from matplotlib import pyplot as plt

FOLDER = RUNS / "scale"
BARS = {64: 10, 256: 20, 1024: 60, 10240: 300}
"""Seconds that a plan may take, by GPUs."""

MEMORY_BAR_GIB = 1.0
GPUS = 64
"""Of HetRL's fleet, of which larger ones are made: 3 machines of A100, 3 of L40S, 2 of L4."""

NETWORKS = ("single-region", "multi-continent")
MODES = {"async": False, "sync": True}
LOG_TICKS = (64, 256, 1024, 10240)


def main() -> None:
    """Plan what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="plan all sizes once more")
    parser.add_argument("--one", nargs=3, metavar=("GPUS", "NETWORK", "MODE"), help="print one")
    chosen = parser.parse_args()
    if chosen.one:
        num_gpus, network, mode = chosen.one
        print(json.dumps(_planned(int(num_gpus), network, mode)))
        return
    for num_gpus, network, mode in product(BARS, NETWORKS, MODES):
        kept(
            _path(num_gpus, network, mode),
            partial(_in_a_process, num_gpus, network, mode),
            fresh=chosen.fresh,
        )
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "scale.md").write_text("\n".join(_page()) + "\n")
    _draw()


def fleet_of(num_gpus: int, network: str) -> ClusterSnapshot:
    """Return HetRL's fleet so many times over, every machine under a name of its own."""
    one = scenarios.fleet(network)
    return replace(
        one,
        machines=tuple(
            replace(each, name=f"{each.name}-{copy}")
            for copy in range(num_gpus // GPUS)
            for each in one.machines
        ),
    )


def _planned(num_gpus: int, network: str, mode: str) -> Record:
    """Plan Qwen3-8B with GRPO and a batch that grows with the fleet."""
    work = scenarios.workload(
        "Qwen3-8B", tasks=scenarios.GRPO, is_synchronous=MODES[mode], max_tokens=1024
    )
    job = job_of(replace(work, batch_size=1024 * num_gpus // GPUS))
    began = time.perf_counter()
    found = plan(fleet_of(num_gpus, network), job)
    seconds = time.perf_counter() - began
    assert isinstance(found, Plan), found
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": seconds,
        "memory_gib": peak_kib / 2**20,
        "step_seconds": found.prediction.step_seconds,
        "gap": found.gap,
        "num_gpus": found.num_gpus,
    }


def _in_a_process(num_gpus: int, network: str, mode: str) -> Record:
    command = [sys.executable, "-m", "bench.planner.scale", "--one", str(num_gpus), network, mode]
    found: Record = json.loads(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
    )
    return found


def _path(num_gpus: int, network: str, mode: str) -> Path:
    return FOLDER / f"{network}-{mode}-{num_gpus}.json"


def _record(num_gpus: int, network: str, mode: str) -> Record:
    return kept(_path(num_gpus, network, mode), dict)


def _page() -> Iterator[str]:
    yield "# Speed and scale"
    yield ""
    yield (
        f"`python -m bench.planner.scale` at {commit()} on {machine()}. Qwen3-8B, GRPO, "
        "1,024 trajectories a step for every 64 GPUs; HetRL's fleet of 24 A100-40GB, 24 L40S and "
        "16 L4 once, 4, 16 and 160 times. Wall seconds of planning and the process's largest "
        "memory; the gap is to the bound of the linear relaxation, which is weak where links and "
        "memory bind. Fleets above 64 GPUs are first planned as copies of a tile of about that "
        "size; those above 2,048 are not evolved any further."
    )
    yield ""
    yield "![seconds and gap against GPUs](scale.png)"
    yield ""
    yield "| GPUs | network | mode | seconds | bar | memory, GiB | GPUs used | step, s | gap |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for num_gpus, network, mode in product(BARS, NETWORKS, MODES):
        found = _record(num_gpus, network, mode)
        gap = "-" if found["gap"] is None else f"{found['gap']:.1%}"
        yield (
            f"| {num_gpus:,} | {network} | {mode} | {found['seconds']:.1f} | {BARS[num_gpus]} "
            f"| {found['memory_gib']:.2f} | {found['num_gpus']:,} | {found['step_seconds']:.1f} "
            f"| {gap} |"
        )
    missed = [
        f"{num_gpus:,} GPUs, {network}, {mode}"
        for num_gpus, network, mode in product(BARS, NETWORKS, MODES)
        for found in [_record(num_gpus, network, mode)]
        if found["seconds"] > BARS[num_gpus] or found["memory_gib"] > MEMORY_BAR_GIB
    ]
    yield ""
    yield f"Over the bars: {'; '.join(missed)}." if missed else "None is over its bars."


def _draw() -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for network, mode in product(NETWORKS, MODES):
        found = [_record(num_gpus, network, mode) for num_gpus in BARS]
        label = f"{network}, {mode}"
        left.plot(list(BARS), [each["seconds"] for each in found], marker="o", label=label)
        right.plot(list(BARS), [100 * (each["gap"] or 0.0) for each in found], marker="o")
    left.plot(list(BARS), list(BARS.values()), color="0.6", linestyle="--", label="bar")
    left.set(yscale="log", ylabel="seconds to plan")
    right.set(ylim=(0, 100), ylabel="gap to the bound, %")
    for axes in (left, right):
        axes.set(xscale="log", xlabel="GPUs")
        axes.set_xticks(LOG_TICKS, [f"{each:,}" for each in LOG_TICKS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    left.legend()
    figure.savefig(RESULTS / "scale.png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
