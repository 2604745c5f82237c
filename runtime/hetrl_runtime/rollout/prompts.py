"""Between texts and tokens: how a question becomes a prompt, and which tokens end a response.

The engines know tokens only.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTooLong:
    """A question that does not fit. It is refused, since a cut question is another question."""

    num_tokens: int
    max_prompt_tokens: int

    def __str__(self) -> str:
        return (
            f"the prompt has {self.num_tokens} tokens, "
            f"data.maxPromptTokens is {self.max_prompt_tokens}"
        )


class PromptFormat:
    """The tokenizer of a model folder, and its chat template where it has one."""

    def __init__(self, folder: Path) -> None:
        """Load the tokenizer.

        Raises:
            ValueError: the folder holds none that can be loaded, or nothing ends a response.
        """
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
        except (OSError, KeyError, ValueError) as error:
            raise ValueError(f"cannot load the tokenizer of {folder}: {error}") from error
        self.stop_tokens = _stop_tokens(folder, self._tokenizer)
        if not self.stop_tokens:
            raise ValueError(
                f"{folder} names no eos_token_id, neither in its generation_config.json, its "
                "config.json nor its tokenizer: no response would ever end"
            )

    def encode(self, question: str, *, max_prompt_tokens: int) -> tuple[int, ...] | PromptTooLong:
        """Return the prompt of a question: a chat's first turn, or the plain text."""
        tokens = self._tokens(question)
        if len(tokens) > max_prompt_tokens:
            return PromptTooLong(num_tokens=len(tokens), max_prompt_tokens=max_prompt_tokens)
        return tuple(tokens)

    def decode(self, tokens: tuple[int, ...]) -> str:
        """Return a response's text without its special tokens."""
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))

    def _tokens(self, question: str) -> list[int]:
        if not self._tokenizer.chat_template:
            return list(self._tokenizer.encode(question))
        text = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
        )
        # The template has written the special tokens already.
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def _stop_tokens(folder: Path, tokenizer: Any) -> tuple[int, ...]:
    """Collect every id that any of a model's files calls the end; chat models have several."""
    given: list[Any] = [tokenizer.eos_token_id]
    for name in ("generation_config.json", "config.json"):
        file = folder / name
        found = json.loads(file.read_text()).get("eos_token_id") if file.exists() else None
        given += found if isinstance(found, list) else [found]
    return tuple(sorted({int(each) for each in given if each is not None}))
