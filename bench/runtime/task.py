"""The task of all sides: words to answer, a reward, and models that answer at a set length.

A prompt is a random word; a response of a length that was asked for earns the share of its letters
that are the word's first. So rewards say something from the first step, and lengths stay in their
range: were there no reward for ending a response, learning would crowd its end out, and all
responses would soon be as long as they may be. A model is a random Qwen3 that was shown a few
answers: enough to end them as the lengths asked for say, and to have something left to learn.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own custom
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from hetrl_runtime.compute.precision import cpu_multiplies_bfloat16
from hetrl_runtime.tiny.tokenizer import make_tokenizer

PROMPT_TOKENS = 12
VOCABULARY_SIZE = 128
RIGHT_AT_FIRST = 0.3
"""Share of right letters among those that a model was shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How many tokens responses have, their end among them."""

    name: str
    fewest: int
    most: int
    tail: float | None = None
    """Spread of a log-normal's logarithm; None: all lengths alike."""

    median: int = 0

    def draw(self, source: random.Random) -> int:
        """Return one length."""
        if self.tail is None:
            return source.randint(self.fewest, self.most)
        found = source.lognormvariate(0.0, self.tail) * self.median
        return int(min(self.most, max(self.fewest, found)))


SHORT = Lengths(name="4-16", fewest=4, most=16)
LONG = Lengths(name="16-256", fewest=16, most=256, tail=0.8, median=55)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A Qwen3's dimensions, and how it is shown answers."""

    name: str
    hidden_size: int
    feed_forward_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    lessons: int
    """Enough that nearly all responses have a length that was asked for: shorter ones are cheaper
    for a side that does not pad."""

    lesson_tokens: int
    """Of one lesson, about."""

    learning_rate: float
    """Of the lessons."""

    files: torch.dtype
    """What its files hold; each version is published so."""


SMALL = Size(
    name="0.5M",
    hidden_size=128,
    feed_forward_size=256,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_size=32,
    lessons=300,
    lesson_tokens=1400,
    learning_rate=2e-3,
    files=torch.float32,
)
LARGE = Size(
    name="0.1B",
    hidden_size=768,
    feed_forward_size=3072,
    num_layers=12,
    num_heads=12,
    num_kv_heads=4,
    head_size=64,
    lessons=200,
    lesson_tokens=700,
    learning_rate=5e-4,
    # As the files of published models, nearly all of them.
    files=torch.bfloat16,
)


def prompts(count: int, *, seed: int) -> list[str]:
    """Return words, each with a sign that its answer is wanted."""
    source = random.Random(seed)
    return [_word(source) for _ in range(count)]


def reward(prompt: str, response: str, *, min_tokens: int, max_tokens: int) -> float:
    """Return the share of a response's letters that are the prompt's first.

    A response that was cut off, or has fewer tokens than asked for with its end, earns nothing.
    """
    if not min_tokens <= len(response) + 1 <= max_tokens:
        return 0.0
    return response.count(prompt[0]) / len(response)


def make_model(folder: Path, size: Size, lengths: Lengths) -> None:
    """Write a model with its tokenizer as a Hugging Face folder, unless it is there."""
    if (folder / "tokenizer.json").exists():
        return
    tokenizer = make_tokenizer(max_tokens=2048)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(_config(size, tokenizer))
    _show_answers(model, tokenizer, size, lengths)
    model.to(size.files).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _word(source: random.Random) -> str:
    return "".join(source.choices(ascii_lowercase, k=PROMPT_TOKENS - 1)) + "="


def _config(size: Size, tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=size.hidden_size,
        intermediate_size=size.feed_forward_size,
        num_hidden_layers=size.num_layers,
        num_attention_heads=size.num_heads,
        num_key_value_heads=size.num_kv_heads,
        head_dim=size.head_size,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def _show_answers(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, size: Size, lengths: Lengths
) -> None:
    source = random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=size.learning_rate)
    for lesson in range(size.lessons):
        for group in optimizer.param_groups:
            group["lr"] = size.learning_rate * min(
                1, (lesson + 1) / 10, 2 - 2 * lesson / size.lessons
            )
        rows = tokenizer(_lessons(source, lengths, size.lesson_tokens))["input_ids"]
        # Precise enough to be shown something; slower than float32 on a CPU that lacks it.
        with torch.autocast("cpu", torch.bfloat16, enabled=cpu_multiplies_bfloat16()):
            loss = _loss(model, rows, tokenizer)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def _lessons(source: random.Random, lengths: Lengths, num_tokens: int) -> list[str]:
    found: list[str] = []
    while sum(map(len, found)) < num_tokens:
        found.append(_lesson(source, lengths.draw(source)))
    return found


def _lesson(source: random.Random, num_tokens: int) -> str:
    prompt = _word(source)
    letters = (
        prompt[0] if source.random() < RIGHT_AT_FIRST else source.choice(ascii_lowercase)
        for _ in range(num_tokens - 1)
    )
    return prompt + "".join(letters)


def _loss(
    model: Qwen3ForCausalLM, rows: Sequence[Sequence[int]], tokenizer: PreTrainedTokenizerFast
) -> torch.Tensor:
    longest = max(map(len, rows)) + 1
    tokens = torch.full((len(rows), longest), tokenizer.pad_token_id)
    labels = torch.full_like(tokens, -100)
    for number, row in enumerate(rows):
        whole = torch.tensor([*row, tokenizer.eos_token_id])
        tokens[number, : len(whole)] = whole
        labels[number, PROMPT_TOKENS : len(whole)] = whole[PROMPT_TOKENS:]
    logits = model(tokens[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
