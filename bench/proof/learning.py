"""Proves that runs learn, and learn from their rewards: `make proof-learning [ALGORITHM=PPO]`.

Three seeds, and two controls that have everything but something to learn from: a learning
rate of 0, and rewards that are dealt out at random. Each is one `hetrl demo` in a folder of
its own; those that are done are not done again, so that a cut proof goes on where it was.
"""

import json
import os
import platform
import subprocess
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """An algorithm's job, where its runs are kept, and the page about them."""

    job: Path
    runs: Path
    results: Path
    least_after: float
    """Accuracy that a run must come to."""


PROOFS = {
    "GRPO": Proof(
        job=Path("examples/arithmetic.yaml"), runs=Path("runs/proof-learning"),
        results=Path("docs/results/learning.md"), least_after=0.8,
    ),
    "PPO": Proof(
        job=Path("examples/arithmetic-ppo.yaml"), runs=Path("runs/proof-learning-ppo"),
        results=Path("docs/results/learning-ppo.md"), least_after=0.9,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One demo, and what its accuracy must do."""

    name: str
    options: tuple[str, ...]
    must_learn: bool

    def holds(self, found: dict[str, Any], proof: Proof) -> bool:
        """Tell whether the demo did what it must."""
        before, after = found["accuracy_before"], found["accuracy_after"]
        is_within_bound = found["staleness_max"] <= found["max_staleness"]
        if not self.must_learn:
            return bool(is_within_bound and after - before <= 0.05)
        runs_ahead = found["staleness_mean"] >= 1
        return bool(is_within_bound and runs_ahead and before <= 0.4 and after >= proof.least_after)


CASES = (
    *(Case(name=f"seed {n}", options=("--seed", str(n)), must_learn=True) for n in (1, 2, 3)),
    Case(
        name="control: learning rate 0", options=("--seed", "1", "--learning-rate", "0"),
        must_learn=False,
    ),
    Case(
        name="control: shuffled rewards", options=("--seed", "1", "--shuffle-rewards"),
        must_learn=False,
    ),
)  # fmt: skip


def main() -> int:
    """Run what is missing, write the page, and tell whether every case holds."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=PROOFS, default="GRPO")
    proof = PROOFS[parser.parse_args().algorithm]
    proof.results.parent.mkdir(parents=True, exist_ok=True)
    found: dict[Case, dict[str, Any]] = {}
    for case in CASES:
        found[case] = _result(case, proof)
        proof.results.write_text(_page(found, proof))
    print(proof.results.read_text())
    return 0 if all(case.holds(result, proof) for case, result in found.items()) else 1


def _result(case: Case, proof: Proof) -> dict[str, Any]:
    out = proof.runs / case.name.replace(" ", "-").replace(":", "")
    result, commit = out / "result.json", out / "commit"
    if not result.exists():
        print(f"== {case.name}", flush=True)
        hetrl = Path(sys.executable).parent / "hetrl"
        began_at = _commit()
        subprocess.run([hetrl, "demo", "--job", proof.job, "--out", out, *case.options], check=True)
        commit.write_text(began_at)
    return dict(json.loads(result.read_text()), commit=commit.read_text())


def _page(found: dict[Case, dict[str, Any]], proof: Proof) -> str:
    problems = next(iter(found.values()))["held_out_problems"]
    algorithm = next(name for name, each in PROOFS.items() if each is proof)
    option = "" if algorithm == "GRPO" else f" ALGORITHM={algorithm}"
    missing = ", ".join(case.name for case in CASES if case not in found)
    rows = [
        f"| {case.name} | {result['accuracy_before']:.1%} | {result['accuracy_after']:.1%} "
        f"| {result['staleness_mean']:.2f} | {result['staleness_max']} "
        f"| {result['trajectories']:,} | {result['demo_wall_seconds']:.0f} s "
        f"| {'yes' if case.holds(result, proof) else '**no**'} | {result['commit']} |"
        for case, result in found.items()
    ]
    return "\n".join(
        [
            "# Does it learn, and from its rewards?",
            "",
            f"`make proof-learning{option}` on {_machine()}: "
            f"greedy accuracy on {problems:,} held-out sums,",
            f"before and after the run of `{proof.job}` by `hetrl demo`.",
            f"A seed must rise from at most 40 % to at least {100 * proof.least_after:.0f} % "
            "and run ahead (mean staleness at least 1); a control may gain at most 5 points;",
            "no trajectory may be staler than the bound of 2.",
            "",
            "| run | before | after | mean staleness | largest | trajectories | time | holds "
            "| commit |",
            "|---|---|---|---|---|---|---|---|---|",
            *rows,
            *(["", f"Not done yet: {missing}."] if missing else []),
            "",
        ]
    )


def _machine() -> str:
    return f"{os.cpu_count()} CPU cores, Python {platform.python_version()}"


def _commit() -> str:
    said = [
        subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout
        for arguments in (
            ["rev-parse", "--short=12", "HEAD"],
            # The page that is being written is no change of what it reports on.
            ["status", "--porcelain", "-uno", ":!docs/results"],
        )
    ]
    return said[0].strip() + (" and uncommitted changes" if said[1].strip() else "")


if __name__ == "__main__":
    sys.exit(main())
