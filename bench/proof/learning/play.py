"""Playing a case as `hetrl demo`, and keeping what came of it.

Records are kept beside the page that is written from them: the matrix takes hours, on more than
one day and machine. A record names the code that decides what is learned; while that stays the
same, the case is not played again.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from bench.proof.code import digest
from bench.proof.commit import commit
from bench.proof.learning.cases import STEPS, Case
from bench.proof.records import keep
from hetrl_cli.demo import CLAIM
from hetrl_core.job.algorithm import AlgorithmType
from hetrl_core.job.spec import Engine
from hetrl_runtime.report.record import read

RUNS = Path("runs/proof-learning")
RECORDS = Path("docs/results/learning")
JOBS = {
    AlgorithmType.GRPO: Path("examples/arithmetic.yaml"),
    AlgorithmType.PPO: Path("examples/arithmetic-ppo.yaml"),
}
_VLLM_PYTHON = Path(".venv-vllm/bin/python")
_DECIDES = (
    "core/hetrl_core/job/algorithm.py",
    "core/hetrl_core/staleness.py",
    "runtime/hetrl_runtime/compute/precision.py",
    *(
        f"runtime/hetrl_runtime/{room}/**/*.py"
        for room in (
            "coordinator",
            "evaluate",
            "reward",
            "rollout",
            "tiny",
            "trainer",
        )
    ),
)
"""Files that decide what a run learns and how that is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A case's record."""

    result: dict[str, Any]
    """As `hetrl demo` wrote it."""

    rewards: tuple[float, ...]
    """Mean of every step."""

    commit: str
    code: str

    def is_of(self, case: Case) -> bool:
        """Tell whether the code that decides is still what it was."""
        return self.code == code_of(case)


def kept(case: Case) -> Kept | None:
    """Return a case's record, of whatever code; None where it was not played to its end."""
    path = _record(case)
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    return Kept(**found | {"rewards": tuple(found["rewards"])})


def play(case: Case) -> Kept:
    """Play a case and keep what came of it; the last place of its checkpoints is given back.

    Cases of one seed begin at the same model, which the first of them makes.

    Raises:
        CalledProcessError: the demo failed; its folder says why.
    """
    out, began_at, code = RUNS / case.name, commit(), code_of(case)
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    job = RUNS / f"{case.name}.yaml"
    job.write_text(job_of(case))
    hetrl = Path(sys.executable).parent / "hetrl"
    beginning = RUNS / f"beginning-{digest(_DECIDES)}-{case.seed}"
    options = ["--seed", str(case.seed), *(case.control.options if case.control else ())]
    if beginning.exists():
        options += ["--from", str(beginning)]
    subprocess.run(
        [hetrl, "demo", "--job", job, "--out", out, *options], check=True, env=_environment(case)
    )
    rewards = [step.reward_mean for step in read(out / "run").steps]
    found = {
        "result": json.loads((out / "result.json").read_text()),
        "rewards": [round(each, 4) for each in rewards],
        "commit": began_at,
        "code": code,
    }
    keep(_record(case), found)
    shutil.rmtree(out / "run" / "checkpoints")
    if not beginning.exists():
        shutil.copytree(out / CLAIM, beginning.with_suffix(".draft") / CLAIM, dirs_exist_ok=True)
        beginning.with_suffix(".draft").replace(beginning)
    return Kept(**found | {"rewards": tuple(rewards)})


def job_of(case: Case) -> str:
    """Return the job of a case: its algorithm's example, with what the case changes."""
    job = yaml.safe_load(JOBS[case.algorithm].read_text())
    job["spec"]["algorithm"] |= {
        "maxStaleness": case.max_staleness,
        "proximalPolicy": case.proximal_policy.value,
    }
    job["spec"]["training"]["steps"] = STEPS
    job["spec"]["runtime"]["engine"] = case.engine.value
    return yaml.safe_dump(job, sort_keys=False)


def code_of(case: Case) -> str:
    """Return a digest of what decides a case: its job, and code but for its comments."""
    return digest(_DECIDES, beside=job_of(case))


def final_reward(found: Kept, *, num_steps: int = 10) -> float:
    """Return the mean reward of the last steps."""
    return fmean(found.rewards[-num_steps:])


def _environment(case: Case) -> dict[str, str]:
    if case.engine is not Engine.VLLM:
        return dict(os.environ)
    return {"HETRL_ROLLOUT_PYTHON": str(_VLLM_PYTHON.absolute())} | os.environ


def _record(case: Case) -> Path:
    return RECORDS / f"{case.name}.json"
