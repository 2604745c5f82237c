"""The small Qwen3: its dimensions, its random beginning, and the folder it is kept in."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from hetrl_runtime.tiny.task import Task
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from hetrl_runtime.tiny.warm_up import WarmUp, WarmUpResult, warm_up
from hetrl_runtime.tiny.warm_up_data import AnswerLessons, Lessons, ProductLessons, SumLessons


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyArchitecture:
    """Dimensions of a Qwen3 that two CPU cores can train by reward, in a minute or two."""

    hidden_size: int = 128
    num_layers: int = 3
    num_heads: int = 4
    num_kv_heads: int = 2
    head_size: int = 32
    """The smallest that vLLM's attention on CPUs accepts."""

    feed_forward_size: int = 256
    max_tokens: int = 2048
    vocabulary_size: int = 128
    """Of which the tokenizer uses 103; vLLM pads the rest otherwise."""

    initial_std: float = 0.05
    """Wider than Qwen3's 0.02: at this width, that starts half as fast."""


ON_ANSWERS = WarmUp(steps=200, batch_size=8)
"""A warm-up on a file's answers: questions in words are long, and answers soon look alike."""

SCHEDULES = {Task.ARITHMETIC: WarmUp(), Task.PRODUCTS: WarmUp(steps=700)}
"""Copying three digits into a call and six out of its result takes longer to learn than sums."""


def make_model(
    path: Path,
    *,
    seed: int,
    task: Task = Task.ARITHMETIC,
    schedule: WarmUp | None = None,
    answers: Path | None = None,
) -> WarmUpResult:
    """Make the model from nothing and save it as a Hugging Face folder.

    The same seed gives the same weights on the same machine.

    Args:
        path: the folder to write.
        seed: of the weights and of what is shown.
        task: which problems are shown.
        schedule: how long to warm up.
        answers: a JSONL file whose answers are shown, instead of a task's.

    Raises:
        FileExistsError: ``path`` is there already.
        ValueError: the file of answers cannot be used.
    """
    if path.exists():
        raise FileExistsError(f"{path} is there already; remove it or choose another path")
    architecture = TinyArchitecture()
    tokenizer = make_tokenizer(max_tokens=architecture.max_tokens)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _random_model(architecture, tokenizer)
        schedule = schedule or (ON_ANSWERS if answers else SCHEDULES[task])
        lessons = (
            AnswerLessons(answers, tokenizer) if answers else _lessons(task, tokenizer, schedule)
        )
        result = warm_up(model, lessons, seed=seed, schedule=schedule)
    _save(model, tokenizer, path)
    return result


def _lessons(task: Task, tokenizer: PreTrainedTokenizerFast, schedule: WarmUp) -> Lessons:
    if task is Task.PRODUCTS:
        return ProductLessons(tokenizer, called_share=1 - schedule.careless_share)
    return SumLessons(tokenizer, careless_share=schedule.careless_share)


def _random_model(
    architecture: TinyArchitecture, tokenizer: PreTrainedTokenizerFast
) -> Qwen3ForCausalLM:
    config = Qwen3Config(
        vocab_size=architecture.vocabulary_size,
        hidden_size=architecture.hidden_size,
        intermediate_size=architecture.feed_forward_size,
        num_hidden_layers=architecture.num_layers,
        num_attention_heads=architecture.num_heads,
        num_key_value_heads=architecture.num_kv_heads,
        head_dim=architecture.head_size,
        max_position_embeddings=architecture.max_tokens,
        initializer_range=architecture.initial_std,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


def _save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        _let_everyone_read(unfinished)
        unfinished.rename(path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _let_everyone_read(folder: Path) -> None:
    # Temporary folders and safetensors files begin as their owner's alone; a pod that runs as
    # another user could not load them.
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
