"""The cases: what is wrong, and how the run must end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.proof.bad_inputs import damage


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run, or one run after another that has trained some steps."""

    name: str
    given: str
    says: tuple[str, ...]
    """Regular expressions that the last command's output or the logs of its processes match."""

    succeeds: bool = False
    damage: Callable[[Path], None] = damage.nothing
    """Changes the folder with model and data before the first run."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the job."""

    patch: str = ""
    """Code that every process of the run executes first."""

    stages: tuple[int, ...] = ()
    """Layers of each trainer process; empty: one process."""

    then: "Then | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Then:
    """A second command, after the first run has trained some steps."""

    stops_first: bool = True
    damage: Callable[[Path], None] = damage.nothing
    changes: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ("--resume",)
    shares_folder: bool = True


CASES = (
    Case(
        name="nan-gradient-once",
        given="one number of the gradient is NaN on one of two trainer processes, in step 3",
        says=(r"step skipped: version=2 not_finite=gradient",),
        succeeds=True,
        patch=damage.nan_gradient(first=3, last=3),
        changes={"gpus": 3},
        stages=(2, 1),
    ),
    Case(
        name="nan-gradient-always",
        given="the same from step 3 on",
        says=(r"NotFinite", r"gradient"),
        patch=damage.nan_gradient(first=3, last=10**9),
        changes={"gpus": 3},
        stages=(2, 1),
    ),
    Case(
        name="infinite-reward",
        given="a reward function returns 1e39, infinite in float32, for every tenth response",
        says=(r"1e\+39",),
        succeeds=True,
        damage=damage.reward("return 1e39 if asked % 10 == 0 else float('4' in response)"),
        changes=damage.PYTHON_REWARD,
    ),
    Case(
        name="reward-raises-always",
        given="a reward function raises for every response",
        says=(r"KeyError", r"no such question"),
        damage=damage.reward("raise KeyError('no such question')"),
        changes=damage.PYTHON_REWARD,
    ),
    Case(
        name="reward-raises-for-a-tenth",
        given="a reward function raises for every tenth response",
        says=(r"KeyError",),
        succeeds=True,
        damage=damage.reward(
            "if asked % 10 == 0: raise KeyError('no such question')",
            "return float('4' in response)",
        ),
        changes=damage.PYTHON_REWARD,
    ),
    Case(
        name="token-of-a-worker",
        given="a worker sends a response with token 1,000,000 of a vocabulary of 128",
        says=(r"1000000", r"128"),
        patch=damage.token_of_a_worker(1_000_000),
    ),
    Case(
        name="token-of-the-data",
        given="the tokenizer makes a token of line 5 that the embedding has no row for",
        says=(r"TokenUnknown", r"line 5\b"),
        succeeds=True,
        damage=damage.added_token(line=5),
    ),
    Case(
        name="half-an-emoji",
        given="line 5 of the data has half of an emoji",
        says=(r"train\.jsonl:5", r"U\+D83C"),
        damage=damage.half_an_emoji(line=5),
    ),
    Case(
        name="prompts-too-long",
        given="30 % of the prompts are longer than maxPromptTokens",
        says=(r"PromptTooLong", r"15 of 50"),
        succeeds=True,
        damage=damage.long_prompts(share=0.3),
    ),
    Case(
        name="missing-lm-head",
        given="the model's weights lack lm_head.weight, which is not tied",
        says=(r"lm_head\.weight",),
        damage=damage.without_head,
    ),
    Case(
        name="awq",
        given="the model's folder has weights quantised by AWQ",
        says=(r"quantization_config", r"awq"),
        damage=damage.quantised,
    ),
    Case(
        name="checkpoint-of-another-job",
        given="the checkpoints of the job's name are of another model",
        says=(r"spec\.model\.source has changed", r"--allow-change model"),
        changes=damage.KEPT,
        then=Then(
            damage=damage.another_model,
            changes=damage.KEPT,
            options=(),
            shares_folder=False,
        ),
    ),
    Case(
        name="data-changed",
        given="the data file is another one at `--resume`",
        says=(r"spec\.data\.prompts has changed", r"--allow-change data"),
        then=Then(damage=damage.other_data),
    ),
    Case(
        name="two-runs-in-a-folder",
        given="a second run is started in the folder of one that goes on",
        says=(r"is in use by process \d+",),
        then=Then(stops_first=False),
    ),
)
