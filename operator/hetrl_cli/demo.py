"""``hetrl demo``: trains a tiny model to add with carries on this machine, and writes a report.

It runs other commands, each in its own process: they make the model and its problems, run the
job as `hetrl run` does, and measure accuracy before and after on held-out problems.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click

from hetrl_cli.say import say

CLAIM = "arithmetic"
"""The claim that the example's model and problems come from."""

NUM_TRAINING_PROBLEMS = 3000
NUM_HELD_OUT_PROBLEMS = 2000
_EVALUATION = (
    "--reward",
    "exact",
    "--max-prompt-tokens",
    "16",
    "--max-response-tokens",
    "8",
    "--batch-size",
    "256",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The demo's folders."""

    path: Path

    @property
    def claim(self) -> Path:
        """The folder in place of the claim: the model and the problems."""
        return self.path / CLAIM

    @property
    def run(self) -> Path:
        """The folder of `hetrl run`."""
        return self.path / "run"

    @property
    def result(self) -> Path:
        """The figures of the result."""
        return self.path / "result.json"

    def clear(self) -> None:
        """Delete an earlier demo, and refuse to delete anything else.

        Raises:
            ClickException: the folder holds files of something else.
        """
        if self.path.exists() and any(self.path.iterdir()) and not self.claim.is_dir():
            raise click.ClickException(f"{self.path} is not empty, and not an earlier demo")
        for each in (self.claim, self.run):
            shutil.rmtree(each, ignore_errors=True)
        self.result.unlink(missing_ok=True)
        self.claim.mkdir(parents=True)


@click.command("demo")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/demo"),
    show_default=True,
    help="Folder of the demo; an earlier demo in it is replaced.",
)
@click.option(
    "--job",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=Path("examples/arithmetic.yaml"),
    show_default=True,
)
@click.option(
    "--from",
    "earlier",
    metavar="DIRECTORY",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="An earlier demo, whose model and problems are reused: two jobs then start equal.",
)
@click.option("--learning-rate", type=click.FloatRange(min=0), help="0: a control.")
@click.option("--shuffle-rewards", is_flag=True, help="The other control.")
def command(
    *,
    seed: int,
    out: Path,
    job: Path,
    earlier: Path | None,
    learning_rate: float | None,
    shuffle_rewards: bool,
) -> None:
    """Teach a tiny model to carry: a trainer, a coordinator and two rollout workers.

    Ends 0 when the run succeeded, whatever the model has learned by then; OUT/result.json
    has the figures.
    """
    started = time.monotonic()
    folders = Folders(path=out)
    _begin(folders, earlier=earlier, seed=seed)
    before = _evaluated(folders, folders.claim / "model")
    experiment = ["--seed", str(seed), *(["--shuffle-rewards"] if shuffle_rewards else [])]
    if learning_rate is not None:
        experiment += ["--learning-rate", str(learning_rate)]
    claim = f"{CLAIM}={folders.claim}"
    _hetrl("run", str(job), "--out", str(folders.run), "--claim", claim, *experiment)
    after = _evaluated(folders, _newest_checkpoint(folders.run))
    _report(folders, before=before, after=after)
    _conclude(folders, seed=seed, wall_seconds=time.monotonic() - started)


def _begin(folders: Folders, *, earlier: Path | None, seed: int) -> None:
    """Provide a model and its problems: an earlier demo's, or new ones."""
    if earlier is None:
        folders.clear()
        _make(folders.claim, seed=seed)
        return
    if earlier.resolve() == folders.path.resolve():
        raise click.UsageError(f"--from {earlier} is what --out replaces: give another folder")
    if not (earlier / CLAIM).is_dir():
        raise click.UsageError(f"--from {earlier}: no demo is there, it has no folder {CLAIM}")
    folders.clear()
    shutil.copytree(earlier / CLAIM, folders.claim, dirs_exist_ok=True)


def _make(claim: Path, *, seed: int) -> None:
    _hetrl("make-model", str(claim / "model"), "--seed", str(seed))
    for name, count, split in (
        ("train.jsonl", NUM_TRAINING_PROBLEMS, "train"),
        ("held-out.jsonl", NUM_HELD_OUT_PROBLEMS, "held-out"),
    ):
        _hetrl(
            "make-data",
            str(claim / name),
            "--count",
            str(count),
            "--split",
            split,
            "--seed",
            str(seed),
        )


def _evaluated(folders: Folders, model: Path) -> str:
    """Return the JSON that `hetrl evaluate` prints for a model on the held-out problems."""
    data = str(folders.claim / "held-out.jsonl")
    said = _hetrl("evaluate", "--model", str(model), "--data", data, *_EVALUATION, capture=True)
    found = json.loads(said)
    say(f"{model}: {found['accuracy']:.1%} of {found['count']} held-out problems solved")
    return said


def _newest_checkpoint(run: Path) -> Path:
    found = sorted((run / "checkpoints").glob("step-*"))
    if not found:
        raise click.ClickException(f"the run left no checkpoint in {run / 'checkpoints'}")
    return found[-1]


def _report(folders: Folders, *, before: str, after: str) -> None:
    evaluation = folders.run / "evaluation"
    evaluation.mkdir()
    (evaluation / "before.json").write_text(before)
    (evaluation / "after.json").write_text(after)
    _hetrl("report", str(folders.run))


def _conclude(folders: Folders, *, seed: int, wall_seconds: float) -> None:
    summary = json.loads((folders.run / "report" / "summary.json").read_text())
    result = summary | {"seed": seed, "demo_wall_seconds": round(wall_seconds, 1)}
    folders.result.write_text(json.dumps(result, indent=1) + "\n")
    say(
        f"accuracy {summary['accuracy_before']:.1%} -> {summary['accuracy_after']:.1%}"
        f"   staleness trained on: mean {summary['staleness_mean']:.2f},"
        f" largest {summary['staleness_max']} of {summary['max_staleness']}"
        f"   {summary['samples_per_second']:.0f} trajectories/s"
        f"   {wall_seconds:.0f} s in all"
    )


def _hetrl(*arguments: str, capture: bool = False) -> str:
    """Run another command; if it fails, exit with its code."""
    child = subprocess.Popen(  # noqa: S603  # our own entry point
        [Path(sys.executable).parent / "hetrl", *arguments],
        stdout=subprocess.PIPE if capture else None,
        text=True,
    )

    def stop(number: int, _frame: FrameType | None) -> None:
        # A terminal sends Ctrl-C to the child itself, which then needs time to stop its own.
        if number != signal.SIGINT:
            child.send_signal(number)

    earlier = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        said, _ = child.communicate()
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
    if child.returncode:
        sys.exit(child.returncode)
    return said or ""
