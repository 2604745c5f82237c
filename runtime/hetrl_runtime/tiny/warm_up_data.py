"""Training data of a tiny model's warm-up: worked problems and a bad habit.

Each class draws batches of tokens and labels; ``warm_up`` sets steps and learning rate.
"""

# ruff: noqa: N806  # shapes: N problems, Batch, Time, Prompt and Answer tokens

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from hetrl_core.job.spec import Tool
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Unusable
from hetrl_runtime.data.reference_answer import target
from hetrl_runtime.rollout.tool_calls import CALL, CALL_END, ToolCalls
from hetrl_runtime.tiny.products import Product, products
from hetrl_runtime.tiny.sums import sums
from hetrl_runtime.tiny.task import Split

IGNORED = -100
"""Label of tokens that are not learned, as ``cross_entropy`` knows it."""


class Lessons(Protocol):
    """A source of training batches."""

    def sample(self, count: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return tokens and labels of worked problems, drawn at random."""


class SumLessons:
    """Sums of the train split, most of them worked without the carry."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, careless_share: float) -> None:
        problems = sums(Split.TRAIN)
        ending = tokenizer.eos_token
        right = [problem.answer + ending for problem in problems]
        careless = [problem.answer_without_carry + ending for problem in problems]
        # Together, so that both kinds of answers are padded to the same length.
        answers = _padded(tokenizer, right + careless)
        self._answers_NA, self._careless_NA = answers.chunk(2)
        self._questions_NP = _padded(tokenizer, [problem.question for problem in problems])
        self._careless_share = careless_share
        self._padding = tokenizer.pad_token_id

    def sample(self, count: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return tokens and labels of a batch, problems and mistakes drawn at random."""
        chosen_B = torch.randint(len(self._questions_NP), (count,), generator=random)
        careless_B = torch.rand(count, generator=random) < self._careless_share
        answers_BA = torch.where(
            careless_B[:, None], self._careless_NA[chosen_B], self._answers_NA[chosen_B]
        )
        questions_BP = self._questions_NP[chosen_B]
        learned_BA = answers_BA.masked_fill(answers_BA == self._padding, IGNORED)
        labels = torch.cat([torch.full_like(questions_BP, IGNORED), learned_BA], dim=1)
        return torch.cat([questions_BP, answers_BA], dim=1), labels


class ProductLessons:
    """Products of the train split: some worked with the calculator, most answered outright.

    Both are right. But no model this small finds products by itself: what it learns from the many
    is to guess, and from the few how a call looks, and what to do with its result.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, called_share: float) -> None:
        self._tokenizer = tokenizer
        self._calls = ToolCalls(tokenizer, [Tool.CALCULATOR])
        self._problems = products(Split.TRAIN)
        self._called_share = called_share
        self._padding = tokenizer.pad_token_id

    def sample(self, count: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return tokens and labels of a batch, padded on the right; results are not learned."""
        chosen = torch.randint(len(self._problems), (count,), generator=random).tolist()
        is_called = (torch.rand(count, generator=random) < self._called_share).tolist()
        worked = [
            self._worked(self._problems[index], is_called=called)
            for index, called in zip(chosen, is_called, strict=True)
        ]
        return (
            _rectangle([tokens for tokens, _ in worked], self._padding),
            _rectangle([labels for _, labels in worked], IGNORED),
        )

    def _worked(self, problem: Product, *, is_called: bool) -> tuple[list[int], list[int]]:
        question = self._tokenizer.encode(problem.question)
        answer = self._tokenizer.encode(problem.answer + str(self._tokenizer.eos_token))
        if not is_called:
            return question + answer, [IGNORED] * len(question) + answer
        call = self._tokenizer.encode(f"{CALL}{problem.expression}{CALL_END}")
        result = list(self._calls.result_of(call))
        ignored = [IGNORED] * len(question), [IGNORED] * len(result)
        return question + call + result + answer, ignored[0] + call + ignored[1] + answer


class AnswerLessons:
    """The final answers of a JSONL file, each right after its question.

    A model this small learns what answers look like, not how to find them: it guesses, and a
    few of its guesses are right.
    """

    def __init__(
        self, path: Path, tokenizer: PreTrainedTokenizerFast, *, max_tokens: int = 256
    ) -> None:
        """Read the problems whose question and answer have at most ``max_tokens`` together.

        Raises:
            ValueError: the file cannot be used, or no problem of it is short enough.
        """
        self._padding = tokenizer.pad_token_id
        worked = [
            (tokenizer.encode(question), tokenizer.encode(answer + str(tokenizer.eos_token)))
            for question, answer in _problems(path)
        ]
        self._worked = [pair for pair in worked if len(pair[0]) + len(pair[1]) <= max_tokens]
        if not self._worked:
            raise ValueError(f"{path}: every problem has more than {max_tokens} tokens")

    def sample(self, count: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return tokens and labels of a batch, padded on the right to its longest problem."""
        chosen = torch.randint(len(self._worked), (count,), generator=random).tolist()
        pairs = [self._worked[index] for index in chosen]
        tokens = [question + answer for question, answer in pairs]
        labels = [[IGNORED] * len(question) + answer for question, answer in pairs]
        return _rectangle(tokens, self._padding), _rectangle(labels, IGNORED)


def _problems(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each question with its final answer."""
    match open_prompts(path):
        case Unusable(message=message):
            raise ValueError(message)
        case prompts:
            for index in range(len(prompts)):
                yield (prompt := prompts[index]).question, target(prompt.answer)
            prompts.close()


def _padded(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Tensor:
    encoded = tokenizer(texts, padding=True, padding_side="right", return_tensors="pt")
    tokens: Tensor = encoded["input_ids"]
    return tokens


def _rectangle(rows: Sequence[list[int]], filling: int) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [filling] * (longest - len(row)) for row in rows])
