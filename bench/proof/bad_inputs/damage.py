"""What is done to a folder with a model and data, and to the processes of a run."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.task import Split
from hetrl_runtime.tiny.warm_up import WarmUp

BRIEF = WarmUp(steps=2, batch_size=4)

PYTHON_REWARD: Mapping[str, Any] = {
    "data": {
        "reward": "python",
        "regex": None,
        "python": {"source": {"claim": {"name": "data", "path": "reward.py"}}},
    }
}
KEPT: Mapping[str, Any] = {"storage": {"checkpoints": {"persistentVolumeClaim": "kept"}}}


def nothing(claim: Path) -> None:
    """Leave the folder as it is."""


def reward(*body: str) -> Callable[[Path], None]:
    """Return what writes a reward function that counts the responses it was asked about."""
    text = "\n".join(
        [
            "asked = 0",
            "",
            "",
            "def score(response, answer):",
            "    global asked",
            "    asked += 1",
            *(f"    {line}" for line in body),
            "",
        ]
    )

    def write(claim: Path) -> None:
        (claim / "reward.py").write_text(text)

    return write


def half_an_emoji(*, line: int) -> Callable[[Path], None]:
    """Return what puts half of a surrogate pair into a line."""

    def write(claim: Path) -> None:
        rows = _rows(claim)
        rows[line - 1]["question"] += "\ud83c"
        _write(claim, rows)

    return write


def long_prompts(*, share: float) -> Callable[[Path], None]:
    """Return what makes a share of the prompts longer than 16 tokens."""

    def write(claim: Path) -> None:
        rows = _rows(claim)
        for row in rows[: round(share * len(rows))]:
            row["question"] = "1+" * 20 + row["question"]
        _write(claim, rows)

    return write


def added_token(*, line: int) -> Callable[[Path], None]:
    """Return what adds a token without a row in the embedding, and uses it in a line."""

    def write(claim: Path) -> None:
        tokenizer = AutoTokenizer.from_pretrained(claim / "model", trust_remote_code=False)
        config = json.loads((claim / "model/config.json").read_text())
        missing = config["vocab_size"] - len(tokenizer)
        tokenizer.add_tokens([f"<x{number}>" for number in range(missing + 1)])
        tokenizer.save_pretrained(claim / "model")
        rows = _rows(claim)
        rows[line - 1]["question"] = f"<x{missing}>1+1="
        _write(claim, rows)

    return write


def without_head(claim: Path) -> None:
    """Say in config.json that the head is not tied; the weights have none."""
    _configure(claim, tie_word_embeddings=False)
    file = claim / "model/model.safetensors"
    kept = {name: each for name, each in load_file(file).items() if name != "lm_head.weight"}
    save_file(kept, file, metadata={"format": "pt"})


def quantised(claim: Path) -> None:
    """Replace a layer's matrices by those that AWQ writes."""
    _configure(claim, quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128})
    file = claim / "model/model.safetensors"
    tensors = load_file(file)
    for name in [each for each in tensors if each.endswith("_proj.weight")]:
        weight = tensors.pop(name)
        packed = torch.zeros(weight.shape[1], weight.shape[0] // 8, dtype=torch.int32)
        tensors[name.replace(".weight", ".qweight")] = packed
    save_file(tensors, file, metadata={"format": "pt"})


def another_model(claim: Path) -> None:
    """Put another model in the place of the first."""
    shutil.rmtree(claim / "model")
    make_model(claim / "model", seed=5, schedule=BRIEF)


def other_data(claim: Path) -> None:
    """Put other problems in the place of the first."""
    write_dataset(claim / "train.jsonl", count=40, seed=2, split=Split.TRAIN)


def nan_gradient(*, first: int, last: int) -> str:
    """Return code that makes a gradient NaN in the second trainer process, in some steps."""
    return f"""
import sys

# The processes of a trainer's pod are children of it.
if any(each in ("trainer", "--multiprocessing-fork") for each in sys.orig_argv):
    import math

    from torch import distributed

    from hetrl_runtime.trainer import learner
    from hetrl_runtime.trainer.model import model

    version = 0
    train, backward = learner.Learner.train, model.TrainedModel._backward

    def counted(self, *arguments, **named):
        global version
        version = named["version"]
        return train(self, *arguments, **named)

    def spoiled(self, *arguments):
        backward(self, *arguments)
        is_second = distributed.is_initialized() and distributed.get_rank() == 1
        if is_second and {first} <= version + 1 <= {last}:
            parameter = next(each for each in self.stage.parameters() if each.grad is not None)
            parameter.grad.view(-1)[0] = math.nan

    learner.Learner.train, model.TrainedModel._backward = counted, spoiled
"""


def token_of_a_worker(token: int) -> str:
    """Return code that puts a token into every response of a rollout worker."""
    return f"""
import sys

if "rollout" in sys.orig_argv:
    from dataclasses import replace

    from hetrl_runtime.rollout.engines import transformers

    generate = transformers.TransformersEngine.generate

    async def spoiled(self, request):
        found = await generate(self, request)
        return replace(found, tokens=(*found.tokens[:-1], {token}))

    transformers.TransformersEngine.generate = spoiled
"""


def _configure(claim: Path, **changes: object) -> None:
    file = claim / "model/config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def _rows(claim: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (claim / "train.jsonl").read_text().splitlines()]


def _write(claim: Path, rows: list[dict[str, Any]]) -> None:
    (claim / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
