"""Prompts as tokens: rendering of a question, and the tokens that end a response.

The engines know tokens only.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers

from hetrl_core.job.spec import DataSpec, Tool
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.model_files.loading import loading
from hetrl_runtime.rollout.tool_calls import ToolCalls


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

    def __init__(
        self,
        folder: Path,
        tools: Sequence[Tool] = (),
        template_arguments: Iterable[tuple[str, Any]] = (),
    ) -> None:
        """Load the tokenizer.

        Args:
            folder: the model's.
            tools: what the policy may call.
            template_arguments: names and values that the chat template gets.

        Raises:
            ModelError: the folder holds none that can be loaded, or nothing ends a response.
            ValueError: nothing that is one token ends a call of a tool.
        """
        with loading(f"the tokenizer of {folder}"):
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
                folder, trust_remote_code=False
            )
        self.end_tokens = _end_tokens(folder, self._tokenizer)
        """Those that end a response."""

        self._template_arguments = dict(template_arguments)
        self.calls = ToolCalls(self._tokenizer, tools, self._template_arguments) if tools else None
        if not self.end_tokens:
            raise ModelError(
                f"{folder} names no eos_token_id, neither in its generation_config.json, its "
                "config.json nor its tokenizer: no response would ever end"
            )

    @classmethod
    def of(cls, folder: Path, data: DataSpec) -> "PromptFormat":
        """Load the tokenizer of a model for a job's data; see ``__init__``."""
        return cls(folder, data.tools, data.chat_template_arguments)

    def encode(
        self,
        question: str,
        *,
        max_prompt_tokens: int,
        messages: Sequence[Mapping[str, str]] = (),
    ) -> tuple[int, ...] | PromptTooLong:
        """Return the prompt of a question: a chat's first turn, or the plain text.

        Where the data have a chat, ``messages`` are all of it, and end in the question.
        """
        tokens = self._tokens(messages or [{"role": "user", "content": question}])
        if len(tokens) > max_prompt_tokens:
            return PromptTooLong(num_tokens=len(tokens), max_prompt_tokens=max_prompt_tokens)
        return tuple(tokens)

    def no_row(self, token: int, *, num_rows: int) -> str:
        """Say that a token of a prompt has no row in the model's embedding."""
        text = self._tokenizer.convert_ids_to_tokens(token)
        return (
            f"the tokenizer makes token {token} ({text!r}) of it, the model's embedding has "
            f"{num_rows} rows"
        )

    @property
    def stop_tokens(self) -> tuple[int, ...]:
        """Those at which an engine stops: at the end of a response, or of a tool's call."""
        return self.end_tokens + ((self.calls.end_token,) if self.calls else ())

    def decode(self, tokens: Sequence[int]) -> str:
        """Return a response's text without its special tokens."""
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))

    def text(self, tokens: Sequence[int]) -> str:
        """Return tokens as text, special tokens included."""
        return str(self._tokenizer.decode(tokens, skip_special_tokens=False))

    def transcript(self, tokens: tuple[int, ...]) -> str:
        """Return a response's text, with what stands between its turns where there are several."""
        if self.calls is None or self.calls.end_token not in tokens:
            return self.decode(tokens)
        has_ended = tokens[-1] in self.end_tokens
        return str(self._tokenizer.decode(tokens[:-1] if has_ended else tokens))

    def _tokens(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        if not self._tokenizer.chat_template:
            return list(self._tokenizer.encode("\n\n".join(each["content"] for each in messages)))
        text = self._tokenizer.apply_chat_template(
            list(messages),
            tools=self.calls.schemas if self.calls else None,
            tokenize=False,
            add_generation_prompt=True,
            **self._template_arguments,
        )
        # The template has written the special tokens already.
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def _end_tokens(folder: Path, tokenizer: Any) -> tuple[int, ...]:
    """Collect every id that any of a model's files calls the end; chat models have several."""
    given: list[Any] = [tokenizer.eos_token_id]
    for name in ("generation_config.json", "config.json"):
        file = folder / name
        found = json.loads(file.read_text()).get("eos_token_id") if file.exists() else None
        given += found if isinstance(found, list) else [found]
    return tuple(sorted({int(each) for each in given if each is not None}))
